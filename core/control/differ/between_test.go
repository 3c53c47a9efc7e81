package differ

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// asked is a concern that notes what it is asked, and has answers of its own.
type asked struct {
	weights
	name    string
	owns    plan.SettingKind
	ends    bool // Ended
	looks   uint64
	verify  []plan.Entry
	decided int
	back    []string // paths of restored entries
}

func (a *asked) Name() string            { return a.name }
func (a *asked) Owns(e *plan.Entry) bool { return e.Kind == a.owns }
func (a *asked) Decide(*concern.Scene) concern.Desired {
	a.decided++
	return a.Desired
}
func (a *asked) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return a.ends }
func (a *asked) Looked(_ *concern.Scene, r *work.Result) bool         { return a.looks == r.ID }
func (a *asked) Verify(*concern.Scene) []plan.Entry                   { return a.verify }
func (a *asked) Restored(_ *concern.Scene, e *plan.Entry)             { a.back = append(a.back, e.Path) }

// effects returns and forgets the effects so far: kind, workload and the paths of entries.
func (l *loop) effects() string {
	var out []string
	for _, e := range l.done {
		line := fmt.Sprintf("%s %s", e.Kind, e.Workload)
		for _, x := range e.Entries {
			line += " " + x.Path
		}
		out = append(out, line)
	}
	l.done = nil
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// now is a desire that begins at once.
func now(id, to string) concern.Desire {
	d := desire(id, to)
	d.Now = true
	return d
}

// TestBetweenScans: a due step begins at once, but not for a workload that is held, being restored or busy.
func TestBetweenScans(t *testing.T) {
	settings := []concern.Desire{
		now("/a", "50"), desire("/later", "50"), now("/stands", "50"), now("/held", "50"), now("/busy", "50"), now("/undone", "50"), now("/a", "60"),
	}
	entries := []plan.Entry{entry(1, plan.CgroupWeight, "/stands", "50"), entry(2, plan.CgroupWeight, "/gone", "50"), entry(3, plan.CgroupCPUs, "/undone", "0")}
	for _, c := range []struct {
		acts bool
		scan uint64
		want string
	}{
		{true, 1, "read /a; restore /gone /gone"},
		{true, 0, "read /a"},
		{false, 1, ""},
	} {
		df, l := newDiffer(c.acts, weights{concern.Desired{Settings: settings}}, entries...)
		df.Scan = c.scan
		l.held = map[workload.ID]bool{"/held": true}
		df.Work.Tasks["/busy"] = &work.Task{}
		df.Work.Undoing = append(df.Work.Undoing, &work.Undoing{Of: "/undone", Entries: map[uint64]bool{3: true}, Running: map[uint64][]plan.Entry{99: entries[2:]}, Tried: map[uint64]bool{3: true}})
		df.Again(df.Concerns()[0])
		if got := l.effects(); got != c.want {
			t.Errorf("acts %v, scan %d: %q, want %q", c.acts, c.scan, got, c.want)
		}
		task := df.Work.Tasks["/a"]
		if c.acts && (task == nil || len(task.Steps) != 2 || task.Scan != c.scan) {
			t.Errorf("acts %v: the task is %+v", c.acts, task)
		}
	}
}

// TestRestoreWaits: an entry that is busy, being restored, or in use under another name is restored later. A recent
// restore of one concern does not put off another.
func TestRestoreWaits(t *testing.T) {
	entries := []plan.Entry{
		entry(1, plan.CgroupWeight, "/a", "50"), entry(2, plan.CgroupWeight, "/busy", "50"), entry(3, plan.CgroupWeight, "/undone", "50"),
		entry(4, plan.CgroupWeight, "/elsewhere", "50"), entry(5, plan.CgroupIdle, "/a", "1"), entry(6, plan.CgroupIdle, "/b", "1"),
	}
	one, two := &asked{name: "one", owns: plan.CgroupWeight}, &asked{name: "two", owns: plan.CgroupIdle}
	df, l := newDiffer(true, one, entries...)
	df.Concerns = func() []concern.Concern { return []concern.Concern{one, two} }
	df.Work.Tasks["/busy"] = &work.Task{}
	df.Work.Tasks["pod"] = &work.Task{Target: "/elsewhere"}
	df.Work.FindTargets()
	df.Work.Undoing = append(df.Work.Undoing, &work.Undoing{Of: "/undone", Entries: map[uint64]bool{3: true}, Running: map[uint64][]plan.Entry{99: entries[2:3]}, Tried: map[uint64]bool{3: true}})
	df.Work.Again(putBackKey("/b", one))
	df.Work.Again(putBackKey("/b", two))
	df.Reconcile()
	if got := l.effects(); got != "restore /a /a /a" {
		t.Errorf("%q", got)
	}
	if u := df.Work.Undoing[len(df.Work.Undoing)-1]; u.Of != "/a" || len(u.Entries) != 2 {
		t.Errorf("the entries of one workload are restored apart: %+v", u)
	}
	df.RestoreAtOnce(two)
	if got := l.effects(); got != "restore /b /b" {
		t.Errorf("at once: %q", got)
	}
	if _, kept := df.Work.Retries[putBackKey("/b", one)]; !kept {
		t.Error("the retry of another concern is forgotten")
	}
}

// TestControllers: a controller goes when the journal has no file below it; that of homes goes with them.
func TestControllers(t *testing.T) {
	for _, c := range []struct {
		name  string
		other plan.Entry
		set   func(*Differ)
		want  string
	}{
		{name: "alone", want: "restore /a /a"},
		{name: "a file below", other: entry(2, plan.CgroupIdle, "/a/b", "1")},
		{name: "a file elsewhere", other: entry(2, plan.CgroupIdle, "/c", "1"), want: "restore /a /a"},
		{name: "the same controller below", other: entry(2, plan.CPUController, "/a/b", "+cpu"), want: "restore /a/b /a/b"},
		{name: "another controller below", other: entry(2, plan.MemoryController, "/a/b", "+memory"), want: "restore /a /a; restore /a/b /a/b"},
		{name: "CPUs below", other: entry(2, plan.CgroupCPUs, "/a/b", "0"), want: "restore /a /a"},
		{name: "busy", set: func(df *Differ) { df.Work.Tasks["/a"] = &work.Task{} }},
		{name: "tried lately", set: func(df *Differ) {
			df.Work.Again(work.Key{Workload: "/a", Kind: plan.SetCgroup, To: putBack, Device: "/a"})
		}},
		{name: "tried long ago", want: "restore /a /a", set: func(df *Differ) {
			df.Work.Again(work.Key{Workload: "/a", Kind: plan.SetCgroup, To: putBack, Device: "/a"})
			df.Work.At = df.Work.At.Add(time.Hour)
		}},
		{name: "being restored", set: func(df *Differ) {
			df.Work.Undoing = append(df.Work.Undoing, &work.Undoing{Of: "/a", Entries: map[uint64]bool{1: true}, Running: map[uint64][]plan.Entry{99: nil}, Tried: map[uint64]bool{1: true}})
		}},
	} {
		df, l := newDiffer(true, &asked{name: "x"}, entry(1, plan.CPUController, "/a", "+cpu"))
		if c.other.Seq > 0 {
			df.Work.Journal.Put(c.other)
		}
		if c.set != nil {
			c.set(df)
		}
		df.Reconcile()
		if got := l.effects(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	df, l := newDiffer(true, &asked{name: "x"}, entry(1, plan.CgroupControllers, "/a", "+cpuset"))
	df.Reconcile()
	if got := l.effects(); got != "" {
		t.Errorf("the controller of homes: %q", got)
	}
}

// TestPolicyOfThreads: the entries of single threads stay while their workload has a policy.
func TestPolicyOfThreads(t *testing.T) {
	thread := func(seq uint64, id, path string) plan.Entry {
		e := entry(seq, plan.TaskPolicy, id, "ext")
		e.Path = path
		return e
	}
	other := entry(4, plan.CgroupIdle, "/a", "1")
	other.Path = "7@8"
	c := &asked{name: "x", owns: plan.TaskPolicy}
	policy := desire("/a", "ext")
	policy.Kind = plan.TaskPolicy
	c.Desired = concern.Desired{Settings: []concern.Desire{policy, desire("/b", "50")}}
	df, l := newDiffer(true, c, thread(1, "/a", "/a"), thread(2, "/a", "7@8"), thread(3, "/b", "9@8"), thread(5, "/a", "/a/old"), other)
	df.Reconcile()
	if got := l.effects(); got != "restore /a /a/old; restore /b 9@8" {
		t.Errorf("%q", got)
	}
	idle := &asked{name: "x", owns: plan.CgroupIdle, weights: weights{c.Desired}}
	df, l = newDiffer(true, idle, other)
	df.Reconcile()
	if got := l.effects(); got != "restore /a 7@8" {
		t.Errorf("an entry of another kind: %q", got)
	}
}

// TestStepsOfConcerns: a concern that gives a workload CPUs replaces its step of the plan, also where nothing is due,
// and a step has the locality that was seen.
func TestStepsOfConcerns(t *testing.T) {
	cpus := func(id, to string) concern.Desire {
		return concern.Desire{Kind: plan.CgroupCPUs, Path: id, Step: plan.Step{Kind: plan.SetCPUs, Workload: workload.ID(id), To: to}}
	}
	c := weights{concern.Desired{Settings: []concern.Desire{cpus("/a", "0-1"), cpus("/stands", "0"), desire("/b", "50")}}}
	df, l := newDiffer(true, c, entry(1, plan.CgroupCPUs, "/stands", "0"))
	l.seen = map[workload.ID]*workload.Observation{"/a": {
		ID:     "/a",
		Memory: []workload.NodeMemory{{Node: 0, KiB: 300}, {Node: 1, KiB: 100}}, RanOn: []workload.NodeShare{{Node: 0, Share: 1}},
	}}
	for _, id := range []string{"/a", "/b", "/stands"} {
		l.plan.Steps = append(l.plan.Steps, cpus(id, "5").Step, plan.Step{Kind: plan.SetMems, Workload: workload.ID(id), To: "1"})
	}
	reader := l.plan.Steps
	df.Reconcile()
	var got []string
	for _, s := range l.plan.Steps {
		got = append(got, fmt.Sprintf("%s %s %s", s.Kind, s.Workload, s.To))
	}
	want := "set-mems /a 1, set-cpus /b 5, set-mems /b 1, set-mems /stands 1, set-cpus /a 0-1, set-cgroup /b 50"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	local, _, _ := l.seen["/a"].LocalShare()
	if gain := l.plan.Steps[4].Gain; gain.LocalityBefore != local || gain.LocalityAfter != local {
		t.Errorf("the gain is %+v of %v", gain, local)
	}
	if len(reader) != 6 || reader[0].To != "5" || reader[0].Workload != "/a" {
		t.Errorf("a reader has %+v", reader)
	}
}

// TestConcernsAreAsked: a concern is asked again after Ended returned true, and hears of restored entries and its effects.
func TestConcernsAreAsked(t *testing.T) {
	one, two := &asked{name: "one", ends: true, looks: 7}, &asked{name: "two", looks: 8}
	df, l := newDiffer(true, one, entry(1, plan.CgroupIdle, "/a", "1"), entry(2, plan.CgroupIdle, "/b", "1"))
	df.Concerns = func() []concern.Concern { return []concern.Concern{weights{}, one, two} }
	asks := func(what string, first, second int) {
		t.Helper()
		if one.decided != first || two.decided != second {
			t.Errorf("%s: asked %d and %d times, want %d and %d", what, one.decided, two.decided, first, second)
		}
		one.decided, two.decided = 0, 0
	}
	df.StepEnded(&plan.Step{}, nil)
	asks("a step ended", 1, 0)
	if !df.Looked(&work.Result{ID: 8}) {
		t.Error("nobody takes up an effect")
	}
	asks("an effect", 0, 1)
	if df.Looked(&work.Result{ID: 9}) {
		t.Error("an effect of nobody is taken up")
	}
	asks("an effect of nobody", 0, 0)
	gone := entry(1, plan.CgroupIdle, "/a", "1")
	df.Restored(&gone)
	if !slices.Equal(one.back, []string{"/a"}) || !slices.Equal(two.back, []string{"/a"}) {
		t.Errorf("restored: %q and %q", one.back, two.back)
	}
	intended := entry(5, plan.CgroupIdle, "/intended", "1")
	intended.State = plan.Intended
	of := func(id string) plan.Entry { return entry(9, plan.CgroupIdle, id, "1") }
	one.verify = []plan.Entry{of("/b"), of("/checked"), of("/busy"), of("/undone"), of("/elsewhere"), intended}
	two.verify = []plan.Entry{of("/a"), {Workload: "/b", Kind: plan.CgroupFreeze, Path: "/b/2", State: plan.Applied}}
	df.Work.Checks[3] = "/checked"
	df.Work.Tasks["/busy"] = &work.Task{}
	df.Work.Tasks["pod"] = &work.Task{Target: "/elsewhere"}
	df.Work.FindTargets()
	df.Work.Undoing = append(df.Work.Undoing, &work.Undoing{Of: "/undone", Entries: map[uint64]bool{77: true}})
	df.Verify()
	if len(l.done) != 2 || l.done[0].Workload != "/a" {
		t.Errorf("the checks are not in order: %+v", l.done)
	}
	if got := l.effects(); got != "check /a /a; check /b /b /b/2" {
		t.Errorf("%q", got)
	}
}
