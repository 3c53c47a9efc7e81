package differ

import (
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// loop is a control with one plan that records all requests.
type loop struct {
	work.Loop
	plan plan.Plan
	done []work.Effect
	held map[workload.ID]bool
	seen map[workload.ID]*workload.Observation
}

func (l *loop) Planned() *plan.Plan                           { return &l.plan }
func (l *loop) Do(e work.Effect)                              { l.done = append(l.done, e) }
func (l *loop) SaveEntry(plan.Entry)                          {}
func (l *loop) Save(string, any)                              {}
func (l *loop) Observed(id workload.ID) []workload.ID         { return []workload.ID{id} }
func (l *loop) Observation(workload.ID) *workload.Observation { return nil }
func (l *loop) LastScan() uint64                              { return 1 }
func (l *loop) Held(id workload.ID) bool                      { return l.held[id] }

type around struct {
	concern.Loop
	*loop
}

func (a around) Observation(id workload.ID) *workload.Observation { return a.seen[id] }
func (around) Observed(id workload.ID) []workload.ID              { return []workload.ID{id} }
func (a around) Held(id workload.ID) bool                         { return a.loop.held[id] }
func (around) Save(string, any)                                   {}

// weights is a concern that owns the weights of cgroups.
type weights struct{ concern.Desired }

func (weights) Name() string                                         { return "weights" }
func (weights) Owns(e *plan.Entry) bool                              { return e.Kind == plan.CgroupWeight }
func (w weights) Decide(*concern.Scene) concern.Desired              { return w.Desired }
func (weights) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

func desire(id, to string) concern.Desire {
	return concern.Desire{Kind: plan.CgroupWeight, Path: id, Step: plan.Step{
		Kind: plan.SetCgroup, Workload: workload.ID(id), To: to,
		Target: plan.Target{Kind: workload.InCgroup, Cgroup: id, File: string(plan.CgroupWeight)},
	}}
}

func entry(seq uint64, kind plan.SettingKind, id, value string) plan.Entry {
	return plan.Entry{Seq: seq, Workload: workload.ID(id), Kind: kind, Path: id, Old: "100", New: value, State: plan.Applied}
}

func newDiffer(acts bool, c concern.Concern, entries ...plan.Entry) (*Differ, *loop) {
	l := &loop{}
	w := work.New(10, entries, nil, nil, nil)
	w.At = time.Unix(1000, 0)
	w.Attach(l)
	return &Differ{
		Work:     &w,
		Concerns: func() []concern.Concern { return []concern.Concern{c} },
		Scene: func(between bool) *concern.Scene {
			return &concern.Scene{Plan: &l.plan, Journal: &w.Journal, Acts: acts, Between: between, Loop: around{loop: l}}
		},
		Scan: 1,
	}, l
}

// restored returns the workloads whose entries are being restored.
func (l *loop) restored() (ids []workload.ID) {
	for _, e := range l.done {
		for _, x := range e.Entries {
			if e.Kind == work.EffectRestore {
				ids = append(ids, x.Workload)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func TestUndesiredIsRestored(t *testing.T) {
	c := weights{concern.Desired{
		Settings: []concern.Desire{desire("/kept", "50"), desire("/new", "50")},
		Leave:    map[workload.ID]bool{"/left": true},
	}}
	entries := []plan.Entry{
		entry(1, plan.CgroupWeight, "/kept", "50"), entry(2, plan.CgroupWeight, "/gone", "50"),
		entry(3, plan.CgroupWeight, "/left", "50"), entry(4, plan.CgroupCPUs, "/others", "0-3"),
	}
	for _, acts := range []bool{true, false} {
		df, l := newDiffer(acts, c, entries...)
		df.Reconcile()
		if len(l.plan.Steps) != 1 || l.plan.Steps[0].Workload != "/new" {
			t.Errorf("acts %v: steps %+v", acts, l.plan.Steps)
		}
		want := []workload.ID{"/gone"}
		if !acts {
			want = nil
		}
		if got := l.restored(); !slices.Equal(got, want) {
			t.Errorf("acts %v: restored %v, want %v", acts, got, want)
		}
		df.Reconcile()
		if got := l.restored(); !slices.Equal(got, want) {
			t.Errorf("acts %v: asked twice: %v", acts, got)
		}
	}
}

// TestThreadsBeforeMemory: threads get their CPUs before the memory of their workload moves; other steps of concerns
// come last.
func TestThreadsBeforeMemory(t *testing.T) {
	divide := desire("/a", "0-3;4-7")
	divide.Step.Kind = plan.DivideThreads
	c := weights{concern.Desired{Settings: []concern.Desire{desire("/a", "50"), divide}}}
	df, l := newDiffer(true, c)
	l.plan.Steps = []plan.Step{
		{Workload: "/b", Kind: plan.MovePages}, {Workload: "/a", Kind: plan.SetCPUs}, {Workload: "/a", Kind: plan.MovePages},
	}
	df.Reconcile()
	expectKinds(t, l, plan.MovePages, plan.SetCPUs, plan.DivideThreads, plan.MovePages, plan.SetCgroup)
}

// TestStay: memory of a workload does not move while a concern has another step to come first.
func TestStay(t *testing.T) {
	df, l := newDiffer(true, weights{concern.Desired{Stay: map[workload.ID]bool{"/a": true}}})
	l.plan.Steps = []plan.Step{
		{Workload: "/a", Kind: plan.SetCPUs}, {Workload: "/a", Kind: plan.MovePages}, {Workload: "/a", Kind: plan.SetMems},
		{Workload: "/b", Kind: plan.MovePages},
	}
	df.Reconcile()
	expectKinds(t, l, plan.SetCPUs, plan.MovePages)
}

func expectKinds(t *testing.T, l *loop, want ...plan.StepKind) {
	t.Helper()
	var got []plan.StepKind
	for i := range l.plan.Steps {
		got = append(got, l.plan.Steps[i].Kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps %v, want %v", got, want)
	}
}

func TestDue(t *testing.T) {
	intended := entry(1, plan.CgroupWeight, "/a", "50")
	intended.State = plan.Intended
	later := entry(1, plan.CgroupWeight, "/a", "50")
	later.Object = "7"
	stands := func(s concern.Stands) concern.Desire { d := desire("/a", "50"); d.Stands = s; return d }
	only := desire("/a", "50")
	only.Only = true
	another := desire("/a", "50")
	another.Object = "8"
	for name, tt := range map[string]struct {
		entries []plan.Entry
		d       concern.Desire
		due     bool
	}{
		"never set":             {nil, desire("/a", "50"), true},
		"the kernel's own":      {nil, desire("/a", plan.CgroupFiles[plan.CgroupWeight]), false},
		"set":                   {[]plan.Entry{entry(1, plan.CgroupWeight, "/a", "50")}, desire("/a", "50"), false},
		"set otherwise":         {[]plan.Entry{entry(1, plan.CgroupWeight, "/a", "60")}, desire("/a", "50"), true},
		"being set":             {[]plan.Entry{intended}, desire("/a", "50"), true},
		"of an earlier cgroup":  {[]plan.Entry{later}, another, true},
		"seen to stand":         {nil, stands(concern.Yes), false},
		"seen not to stand":     {[]plan.Entry{entry(1, plan.CgroupWeight, "/a", "50")}, stands(concern.No), true},
		"only not restored now": {nil, only, false},
	} {
		df, _ := newDiffer(true, weights{}, tt.entries...)
		if got := df.due(&tt.d); got != tt.due {
			t.Errorf("%s: due %v", name, got)
		}
	}
}
