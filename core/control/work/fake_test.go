package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// fake is a Loop that records all requests as lines, and a host whose effects end when the test says so.
type fake struct {
	t *testing.T
	*Work
	plan     plan.Plan
	seen     map[workload.ID]*workload.Observation
	scan     uint64 // the newest that has ended
	held     map[workload.ID]bool
	observes bool
	room     *topology.Host
	ofRun    map[string]topology.CPUSet // the CPUs that processes had before `homenode run`, by path
	lines    []string
	args     []any // of the newest event
	todo     []Effect
	changed  map[uint64][]*Failure
	undone   map[uint64]*Undone
}

// start is the time at which tests begin.
var start = time.Unix(10000, 0)

func newFake(t *testing.T, entries ...plan.Entry) *fake {
	f := &fake{
		t: t, seen: map[workload.ID]*workload.Observation{}, held: map[workload.ID]bool{}, scan: 4,
		ofRun: map[string]topology.CPUSet{}, changed: map[uint64][]*Failure{}, undone: map[uint64]*Undone{},
	}
	var seq uint64
	for _, e := range entries {
		seq = max(seq, e.Seq)
	}
	w := New(seq, entries, nil, nil, nil)
	w.At, w.Scans = start, 5 // the fifth scan is under way
	w.Attach(f)
	f.Work = &w
	return f
}

func (f *fake) line(format string, args ...any) {
	f.lines = append(f.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (f *fake) Observation(id workload.ID) *workload.Observation { return f.seen[id] }
func (f *fake) Observed(id workload.ID) []workload.ID            { return []workload.ID{id} }
func (f *fake) IsRoot(id workload.ID, p workload.Process) bool {
	return string(id) == fmt.Sprint("pid:", p.PID)
}
func (f *fake) LastScan() uint64                     { return f.scan }
func (f *fake) Held(id workload.ID) bool             { return f.held[id] }
func (f *fake) Acts() bool                           { return !f.observes }
func (f *fake) Room() (*topology.Host, topology.KiB) { return f.room, 0 }
func (f *fake) Planned() *plan.Plan                  { return &f.plan }
func (f *fake) PruneSoon()                           { f.line("prune soon") }
func (f *fake) TookAway(id workload.ID)              { f.line("took away %s", id) }
func (f *fake) Save(key string, value any)           { f.line("save %s %v", key, value) }
func (f *fake) EntryRestored(e *plan.Entry)          { f.line("out of the journal: %d %s", e.Seq, e.State) }
func (f *fake) Changed(request uint64, each []*Failure) {
	f.changed[request] = each
	f.line("answer %d: %s", request, codes(each))
}
func (f *fake) GaveValue(id workload.ID, k plan.SettingKind, v string) {
	f.line("gave %s %s %s", id, k, v)
}

func (f *fake) Had(kind plan.SettingKind, path string) (had, given topology.CPUSet, ok bool) {
	had, ok = f.ofRun[path]
	return had, topology.CPUs(8, 9), ok && kind == plan.Affinity
}

func (f *fake) RestoredAffinity(e *plan.Entry) bool {
	f.line("restored the affinity of %s", e.Path)
	_, ok := f.ofRun[e.Path]
	return ok
}

func (f *fake) Undone(request uint64, u *Undone) {
	f.undone[request] = u
	f.line("undone %d", request)
}

func (f *fake) Do(e Effect) {
	f.todo = append(f.todo, e)
	switch {
	case e.Step != nil:
		f.line("%s %s %s %s", e.Kind, e.Workload, e.Step.Kind, e.Step.To)
	case len(e.Entries) > 0:
		f.line("%s %s", e.Kind, paths(e.Entries))
	case e.Kind == EffectCancel:
		f.line("%s effect %d of %s", e.Kind, e.Of, e.Workload)
	default:
		f.line("%s %s", e.Kind, e.Workload)
	}
}

func (f *fake) SaveEntry(e plan.Entry) {
	f.line("entry %d %s %s: %s to %s, %s", e.Seq, e.Kind, e.Path, e.Old, e.New, e.State)
}

func (f *fake) SaveMove(m plan.Move) {
	f.line("move of %s to %s: %s, %d of %d", m.Workload, m.Home, m.State, m.Moved, m.Planned)
}

func (f *fake) Event(e plan.Event, code words.Code, args ...any) {
	f.args = args
	wrong := ""
	if e.Error {
		wrong = "!"
	}
	f.line("%s%s %s: %s", wrong, e.Kind, e.Workload, code)
}

func (f *fake) Once(key string, e plan.Event, code words.Code, args ...any) {
	f.Event(e, code, args...)
	f.lines[len(f.lines)-1] += ", once"
}

func (f *fake) StepEnded(s *plan.Step, x *Failure) {
	f.line("ended %s %s %s: %s", s.Workload, s.Kind, s.To, codes([]*Failure{x}))
}

// codes shows how steps went.
func codes(each []*Failure) string {
	var out []string
	for _, f := range each {
		if f == nil {
			out = append(out, "ok")
		} else {
			out = append(out, string(f.Code))
		}
	}
	return strings.Join(out, ", ")
}

func paths(entries []plan.Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s of %s", e.Kind, e.Path))
	}
	return strings.Join(out, ", ")
}

// want compares the lines since the last call.
func (f *fake) want(name string, lines ...string) {
	f.t.Helper()
	if !slices.Equal(f.lines, lines) {
		f.t.Errorf("%s:\n\t%s\nwant\n\t%s", name, strings.Join(f.lines, "\n\t"), strings.Join(lines, "\n\t"))
	}
	f.lines = nil
}

// next takes the oldest effect that ends with a result.
func (f *fake) next() Effect {
	f.t.Helper()
	for i, e := range f.todo {
		if e.ID != 0 {
			f.todo = slices.Delete(f.todo, i, i+1)
			return e
		}
	}
	f.t.Fatalf("nothing is under way; so far\n\t%s", strings.Join(f.lines, "\n\t"))
	return Effect{}
}

// reads ends a read with the values of settings of its step, "KIND PATH VALUE" or "KIND PATH VALUE OBJECT" each.
func (f *fake) reads(values ...string) {
	f.t.Helper()
	e := f.next()
	if e.Kind != EffectRead {
		f.t.Fatalf("%+v is no read", e)
	}
	r := Result{ID: e.ID}
	for _, v := range values {
		r.Changes = append(r.Changes, plan.Change{Setting: setting(v), Will: e.Step.To})
	}
	if !f.TaskResult(&r) {
		f.t.Fatal("no task has that effect")
	}
}

// setting reads "KIND PATH VALUE OBJECT"; a value of - is none.
func setting(text string) plan.Setting {
	w := append(strings.Fields(text), "")
	return plan.Setting{Kind: plan.SettingKind(w[0]), Path: w[1], Value: strings.TrimPrefix(w[2], "-"), Object: w[3]}
}

// ends ends the oldest effect, well or not.
func (f *fake) ends(code Code) {
	f.t.Helper()
	e := f.next()
	r := Result{ID: e.ID}
	if code != "" {
		r.Failed = &Failure{Code: code, Text: string(code)}
	}
	if !f.TaskResult(&r) && !f.UndoResult(&r) {
		f.t.Fatalf("nothing waits for %+v", e)
	}
}

// cpusOf returns a step that gives a cgroup CPUs.
func cpusOf(id, to string) plan.Step {
	return plan.Step{Kind: plan.SetCPUs, Workload: workload.ID(id), To: to, Target: plan.Target{Kind: workload.InCgroup, Cgroup: id}}
}

// memsOf returns a step that gives a cgroup memory nodes at once.
func memsOf(id, to string) plan.Step {
	return plan.Step{Kind: plan.SetMems, Workload: workload.ID(id), To: to, AtOnce: true, Target: plan.Target{Kind: workload.InCgroup, Cgroup: id}}
}

// pagesOf returns a step that moves pages of a cgroup.
func pagesOf(id, to string, bytes int64) plan.Step {
	return plan.Step{Kind: plan.MovePages, Workload: workload.ID(id), To: to, Bytes: bytes, Target: plan.Target{Kind: workload.InCgroup, Cgroup: id}}
}

// applied returns an entry of a setting that homenode has changed.
func applied(seq uint64, kind plan.SettingKind, path, from, to string) plan.Entry {
	return plan.Entry{Seq: seq, Workload: workload.ID(path), Kind: kind, Path: path, Old: from, New: to, State: plan.Applied}
}

// begins begins a task of steps of one workload.
func (f *fake) begins(of ...plan.Step) *Task {
	t := &Task{Steps: slices.Clone(of), Scan: f.scan}
	f.Begin(of[0].Workload, t)
	return t
}

// asks begins a task for a request.
func (f *fake) asks(request uint64, together bool, of ...plan.Step) *Task {
	t := &Task{Steps: slices.Clone(of), Scan: f.scan, Request: request, Together: together}
	f.Queue(of[0].Workload, t)
	return t
}
