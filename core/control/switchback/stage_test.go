package switchback

import (
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// still is a control that records all requests.
type still struct {
	work.Loop
	told    []words.Code
	orders  []string // texts of the lines that say what a person ordered
	saved   map[string]any
	saves   int // of anything
	plan    plan.Plan
	matches map[string][]workload.ID // by name or pattern
	missing map[workload.ID]bool     // that Find does not find
	holds   *work.Holds
	undone  []work.Which
	held    int // how often the holds were written
	unasked int // how deep
	asked   int // lines and undos that counted as an order of a person
	todo    []work.Effect
	ended   func(*plan.Step, *work.Failure)
}

func (l *still) Matching(names []string) (ids []workload.ID) {
	for _, name := range names {
		ids = append(ids, l.matches[name]...)
	}
	return ids
}

func (l *still) Find(name workload.ID) (workload.ID, *work.Failure) {
	if l.missing[name] {
		return "", &work.Failure{Code: work.NotFound}
	}
	return "/" + workload.ID(strings.TrimPrefix(string(name), "/")), nil
}

func (l *still) UndoAndHold(which work.Which) {
	l.undone = append(l.undone, which)
	l.count()
	if which.All {
		l.holds.All = true
	} else {
		l.holds.IDs[which.ID] = true
	}
}

func (l *still) Unasked(f func()) {
	l.unasked++
	f()
	l.unasked--
}

func (l *still) count() {
	if l.unasked == 0 {
		l.asked++
	}
}

func (l *still) Event(_ plan.Event, code words.Code, _ ...any) {
	l.told = append(l.told, code)
	l.count()
}

func (l *still) Order(_ workload.ID, code words.Code, args ...any) {
	l.told = append(l.told, code)
	l.orders = append(l.orders, words.Because(code, append([]any{"root"}, args...)...).String())
}

func (l *still) Save(key string, value any) {
	l.saved[key] = value
	l.saves++
}

func (l *still) Planned() *plan.Plan                                          { return &l.plan }
func (l *still) SaveHolds()                                                   { l.held++ }
func (l *still) Do(e work.Effect)                                             { l.todo = append(l.todo, e) }
func (l *still) SaveEntry(plan.Entry)                                         {}
func (l *still) Observed(id workload.ID) []workload.ID                        { return []workload.ID{id} }
func (l *still) StepEnded(s *plan.Step, f *work.Failure)                      { l.ended(s, f) }
func (l *still) GaveValue(workload.ID, plan.SettingKind, string)              {}
func (l *still) EntryRestored(*plan.Entry)                                    {}
func (l *still) Undone(uint64, *work.Undone)                                  {}
func (l *still) Acts() bool                                                   { return false }
func (l *still) Had(plan.SettingKind, string) (a, b topology.CPUSet, ok bool) { return a, b, false }

func newHost() (*Host, *still) {
	holds := &work.Holds{IDs: map[workload.ID]bool{}}
	l := &still{saved: map[string]any{}, holds: holds}
	w := work.New(0, nil, nil, nil, nil)
	w.Attach(l)
	return &Host{Work: &w, Holds: holds, Enforce: true, By: &plan.Asker{User: "root"}, Loop: l}, l
}

// stage is trials on a host with a kernel.
type stage struct {
	*Trials
	h      *Host
	l      *still
	values map[string]string // of the kernel's settings
	writes int
	refuse *work.Failure // the answer to every write; nil takes them
}

func newStage() *stage {
	h, l := newHost()
	g := &stage{Trials: &Trials{}, h: h, l: l, values: map[string]string{hostprep.NUMABalancing: "7", hostprep.CacheAware: "8"}}
	l.ended = func(s *plan.Step, f *work.Failure) { g.StepEnded(h, s.Workload, s.To, f) }
	return g
}

// obey gives an order that must be carried out.
func (g *stage) obey(t *testing.T, o Order) {
	t.Helper()
	if o.Name == "" {
		o.Name, o.Begin = "t", true
	}
	o.Lease = MostLease
	if f := g.Obey(g.h, &o); f != nil {
		t.Fatalf("%+v: %v", o, f)
	}
}

// carryOut carries out all effects, as the drivers do.
func (g *stage) carryOut() {
	for len(g.l.todo) > 0 {
		e := g.l.todo[0]
		g.l.todo = g.l.todo[1:]
		r := work.Result{ID: e.ID}
		switch e.Kind {
		case work.EffectRead:
			path := e.Step.Target.Host
			r.Changes = []plan.Change{{Setting: plan.Setting{Kind: plan.HostFile, Path: path, Value: g.values[path]}, Will: e.Step.To}}
		case work.EffectApply:
			g.writes++
			if r.Failed = g.refuse; r.Failed == nil {
				g.values[e.Step.Target.Host] = e.Step.To
			}
		case work.EffectRestore:
			for _, x := range e.Entries {
				if r.Failed = g.refuse; r.Failed == nil {
					g.values[x.Path] = x.Old
				}
			}
			g.h.Work.UndoResult(&r)
			continue
		default:
			continue
		}
		g.h.Work.TaskResult(&r)
	}
}

// kernel returns the values of the settings of the arms balancing and caches.
func (g *stage) kernel() string {
	return g.values[hostprep.NUMABalancing] + " " + g.values[hostprep.CacheAware]
}

// both is the arms with a setting of the kernel.
var both = []trial.Arm{trial.Balancing, trial.Caches}

func steps(ids ...workload.ID) (out []plan.Step) {
	for _, id := range ids {
		out = append(out, plan.Step{Kind: plan.SetCPUs, Workload: id, To: "0"})
	}
	return out
}

func idsOf(steps []plan.Step) (ids []workload.ID) {
	for i := range steps {
		ids = append(ids, steps[i].Workload)
	}
	return slices.Compact(ids)
}

// take has a setting of the kernel set for a workload.
func (g *stage) take(k int) {
	g.h.Work.Journal.Put(plan.Entry{Seq: 1, Workload: "/b", Kind: plan.HostFile, Path: kernelArms[k].file})
}
