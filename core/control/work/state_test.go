package work

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestRetriesWait: a failure waits 10 s, then twice as long each time, up to 10 minutes; a time further off is of a
// clock that was set back, and is over.
func TestRetriesWait(t *testing.T) {
	for failures, want := range []time.Duration{10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600, 600, 600} {
		if got := backoff(failures); got != want*time.Second {
			t.Errorf("after %d: %v", failures, got)
		}
	}
	if got := backoff(1e6); got != 10*time.Minute {
		t.Errorf("after many: %v", got)
	}
	f := newFake(t)
	for wait, later := range map[time.Duration]bool{-1: false, 0: false, 1: true, 10 * time.Minute: true, 10*time.Minute + 1: false} {
		if got := f.Later(start.Add(wait)); got != later {
			t.Errorf("in %v: %v", wait, got)
		}
	}
	key := Key{Workload: "/a"}
	for i, wait := range []time.Duration{10 * time.Second, 20 * time.Second} {
		if !f.Again(key) || f.Again(key) {
			t.Errorf("%d: again", i)
		}
		if r := f.Retries[key]; r.Failures != i+1 || r.Next.Sub(f.At) != wait {
			t.Errorf("%d: %+v", i, r)
		}
		f.At = f.Retries[key].Next
	}
}

// TestFresh: a workload is fresh when a scan that began after its last change has ended.
func TestFresh(t *testing.T) {
	f := newFake(t)
	for scan, fresh := range map[uint64]bool{3: true, 4: false, 5: false} {
		for _, asked := range []bool{true, false} {
			f.Ended["/a"] = Ended{Scan: scan, Asked: asked}
			if f.Fresh("/a") != fresh || f.Changing("/a") != (asked && !fresh) {
				t.Errorf("ended in scan %d, asked %v: fresh %v, changing %v", scan, asked, f.Fresh("/a"), f.Changing("/a"))
			}
		}
	}
	if !f.Fresh("/b") || f.Changing("/b") {
		t.Error("nothing was done to it")
	}
	for request, changing := range map[uint64]bool{0: false, 1: true} {
		f.Tasks["/b"] = &Task{Request: request}
		if f.Changing("/b") != changing {
			t.Errorf("request %d", request)
		}
	}
}

// TestInUseElsewhere: a cgroup in use under one ID is not changed under another, as long as the use lasts.
func TestInUseElsewhere(t *testing.T) {
	entry := applied(1, plan.CgroupCPUs, "/x", "", "0")
	entry.Workload = "/a"
	for _, tt := range []struct {
		name   string
		change func(*fake)
		used   bool
	}{
		{"nothing", func(*fake) {}, false},
		{"silent", func(f *fake) { f.Silent["/a"] = Silent{Target: "/x", Until: start.Add(1)} }, true},
		{"silent before", func(f *fake) { f.Silent["/a"] = Silent{Target: "/x", Until: start} }, false},
		{"a task", func(f *fake) { f.Tasks["/a"] = &Task{Target: "/x"} }, true},
		{"a task of something else", func(f *fake) { f.Tasks["/a"] = &Task{} }, false},
		{"just ended", func(f *fake) { f.Ended["/a"] = Ended{Target: "/x", Scan: 4} }, true},
		{"ended and seen", func(f *fake) { f.Ended["/a"] = Ended{Target: "/x", Scan: 3} }, false},
		{"checked", func(f *fake) { f.Checks[1] = "/a" }, true},
		{"another is checked", func(f *fake) { f.Checks[1] = "/b" }, false},
		{"undone", func(f *fake) { f.Undoing = []*Undoing{{Which: Which{ID: "/a"}}} }, true},
		{"checked, and another is undone", func(f *fake) { f.Checks[1], f.Undoing = "/a", []*Undoing{{Which: Which{ID: "/b"}}} }, true},
		{"another is undone", func(f *fake) { f.Undoing = []*Undoing{{Which: Which{ID: "/b"}}} }, false},
	} {
		f := newFake(t, entry)
		tt.change(f)
		f.FindTargets()
		if f.InUseElsewhere("/x", "/a") || f.InUseElsewhere("/x", "/b") != tt.used || f.InUseElsewhere("/y", "/b") || f.InUseElsewhere("", "/b") {
			t.Errorf("%s: used %v", tt.name, f.InUseElsewhere("/x", "/b"))
		}
	}
	f := newFake(t) // under two IDs: for each it is in use elsewhere
	f.Tasks["/a"], f.Ended["/b"] = &Task{Target: "/x"}, Ended{Target: "/x", Scan: 4}
	f.FindTargets()
	if !f.InUseElsewhere("/x", "/a") || !f.InUseElsewhere("/x", "/b") {
		t.Error("of two")
	}
	f.Ended["/a"] = Ended{Target: "/x", Scan: 4} // the same ID twice
	delete(f.Ended, "/b")
	if f.FindTargets(); f.InUseElsewhere("/x", "/a") {
		t.Error("of one")
	}
}

// TestMark: an entry is written only when its state changes, as a copy.
func TestMark(t *testing.T) {
	e := applied(1, plan.CgroupFreeze, "/a", "0", "1")
	e.State, e.Past = plan.Intended, []string{"0"}
	f := newFake(t, e)
	f.Mark(&e, plan.Applied)
	f.Mark(f.Journal.At(1), plan.Applied)
	f.want("once", "entry 1 cgroup.freeze /a: 0 to 1, applied")
	if e.State != plan.Intended || len(f.Journal.At(1).Past) != 0 {
		t.Errorf("%+v, %+v", e, f.Journal.At(1))
	}
	f.Mark(f.Journal.At(1), plan.Intended)
	if got := f.Journal.At(1); got.State != plan.Intended {
		t.Errorf("%+v", got)
	}
}

// TestNewWork: a daemon has the moves and undos of the one before.
func TestNewWork(t *testing.T) {
	w := New(7, nil, nil, []plan.Move{{Workload: "/a", Home: "1"}}, []Which{{All: true}, {Sharing: true, ID: "/b"}})
	if w.Seq != 7 || w.Moves["/a"].Home != "1" || len(w.Undoing) != 1 || !w.Undoing[0].Which.All {
		t.Errorf("%+v", w)
	}
	if w.NextSeq() != 8 || w.NextSeq() != 9 {
		t.Errorf("seq %d", w.Seq)
	}
}

// TestHolds: a part of a workload is held with the whole.
func TestHolds(t *testing.T) {
	h := Holds{IDs: map[workload.ID]bool{"vm:a": true}}
	for id, held := range map[workload.ID]bool{"vm:a": true, "vm:b": false, workload.PartID("vm:a", 1): true, workload.PartID("vm:b", 1): false} {
		if h.Has(id) != held {
			t.Errorf("%s: %v", id, h.Has(id))
		}
	}
	if h.All = true; !h.Has("vm:b") {
		t.Error("all")
	}
}

// TestWhich: all means every workload, without orders about the host where only homenode's own settings are meant.
func TestWhich(t *testing.T) {
	for _, tt := range []struct {
		which Which
		id    workload.ID
		has   bool
	}{
		{Which{ID: "/a"}, "/a", true},
		{Which{ID: "/a"}, "/b", false},
		{Which{ID: "vm:a"}, workload.PartID("vm:a", 1), true},
		{Which{All: true}, "/a", true},
		{Which{All: true}, hostprep.ID, true},
		{Which{All: true, Own: true}, "/a", true},
		{Which{All: true, Own: true}, hostprep.ID, false},
	} {
		if got := tt.which.Has(tt.id); got != tt.has {
			t.Errorf("%+v, %s: %v", tt.which, tt.id, got)
		}
	}
	all, one := Which{All: true, ID: "/a"}, Which{ID: "/a"}
	if all.Name() != "everything" || one.Name() != "/a" {
		t.Errorf("%s, %s", all.Name(), one.Name())
	}
}

// TestUndoingHas: an undo has the entries of its workload, of its kind or of its list, and a controller when something
// below it was restored.
func TestUndoingHas(t *testing.T) {
	below := Undone{Restored: []plan.Entry{applied(9, plan.CgroupCPUs, "/a/b", "", "")}}
	unchanged := Undone{Unchanged: []plan.Entry{applied(9, plan.CgroupCPUs, "/a/b", "", "")}}
	of := func(kind plan.SettingKind, path string, id workload.ID) plan.Entry {
		e := applied(1, kind, path, "", "")
		e.Workload = id
		return e
	}
	for _, tt := range []struct {
		name string
		u    Undoing
		e    plan.Entry
		has  bool
	}{
		{"its own", Undoing{Which: Which{ID: "/a"}}, of(plan.CgroupCPUs, "/a", "/a"), true},
		{"another's", Undoing{Which: Which{ID: "/b"}}, of(plan.CgroupCPUs, "/a", "/a"), false},
		{"its kind", Undoing{Which: Which{ID: "/a", Only: plan.CgroupCPUs}}, of(plan.CgroupCPUs, "/a", "/a"), true},
		{"another kind", Undoing{Which: Which{ID: "/a", Only: plan.CgroupMems}}, of(plan.CgroupCPUs, "/a", "/a"), false},
		{"its kind, another's", Undoing{Which: Which{ID: "/b", Only: plan.CgroupCPUs}}, of(plan.CgroupCPUs, "/a", "/a"), false},
		{"a controller, of one kind", Undoing{Which: Which{ID: "/b", Only: plan.CgroupCPUs}, Result: below}, of(plan.CgroupControllers, "/a", "/a"), false},
		{"in its list", Undoing{Of: "/a", Entries: map[uint64]bool{1: true}}, of(plan.CgroupCPUs, "/a", "/a"), true},
		{"not in its list", Undoing{Of: "/a", Entries: map[uint64]bool{2: true}}, of(plan.CgroupCPUs, "/a", "/a"), false},
		{"a controller above", Undoing{Which: Which{ID: "/b"}, Result: below}, of(plan.CgroupControllers, "/a", "/x"), true},
		{"above what stood", Undoing{Which: Which{ID: "/b"}, Result: unchanged}, of(plan.CgroupControllers, "/a", "/x"), true},
		{"a controller elsewhere", Undoing{Which: Which{ID: "/b"}, Result: below}, of(plan.CgroupControllers, "/c", "/x"), false},
		{"a CPU set above", Undoing{Which: Which{ID: "/b"}, Result: below}, of(plan.CgroupCPUs, "/a", "/x"), false},
		{"a controller of sharing, of a list", Undoing{Of: "/b", Entries: map[uint64]bool{}, Result: below}, of(plan.CPUController, "/a", "/x"), true},
		{"the controller of homes, of a list", Undoing{Of: "/b", Entries: map[uint64]bool{}, Result: below}, of(plan.CgroupControllers, "/a", "/x"), false},
	} {
		if got := tt.u.has(&tt.e); got != tt.has {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	for name, tt := range map[string]struct {
		u     Undoing
		about bool
	}{
		"all":          {Undoing{Which: Which{All: true}}, true},
		"it":           {Undoing{Which: Which{ID: "/a"}}, true},
		"a list of it": {Undoing{Of: "/a", Entries: map[uint64]bool{}}, true},
		"another list": {Undoing{Of: "/b", Entries: map[uint64]bool{}, Which: Which{All: true}}, false},
	} {
		if got := tt.u.about("/a"); got != tt.about {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestInside: a cgroup lies below another by whole names.
func TestInside(t *testing.T) {
	for _, tt := range []struct {
		path, group string
		inside      bool
	}{{"/a/b", "/a", true}, {"/a", "/a", false}, {"/ab", "/a", false}, {"/a", "/", true}, {"/", "/", false}, {"/a/b/c", "/a", true}, {"/b", "/a", false}} {
		if got := Inside(tt.path, tt.group); got != tt.inside {
			t.Errorf("%s in %s: %v", tt.path, tt.group, got)
		}
	}
}

// TestKeys: a step is known by its workload, kind, value and part; all values of a setting that turns are one, and each
// process has its own.
func TestKeys(t *testing.T) {
	step := func(kind plan.StepKind, to, file string) plan.Step {
		s := process("/a", to, 7, 8)
		s.Kind, s.Target.File = kind, file
		return s
	}
	for _, tt := range []struct {
		step plan.Step
		want Key
	}{
		{step(plan.SetCPUs, "0", ""), Key{"/a", plan.SetCPUs, "0", ""}},
		{step(plan.SetCgroup, "50", "cpu.weight"), Key{"/a", plan.SetCgroup, "50", "cpu.weight"}},
		{step(plan.SetCgroup, "1", "cgroup.freeze"), Key{"/a", plan.SetCgroup, "", "cgroup.freeze"}},
		{step(plan.DivideThreads, "0;1", ""), Key{"/a", plan.DivideThreads, "0;1", "7@1"}},
	} {
		key := KeyOf(&tt.step)
		text, err := json.Marshal(map[Key]int{key: 1})
		var back map[Key]int
		if key != tt.want || err != nil || json.Unmarshal(text, &back) != nil || back[key] != 1 {
			t.Errorf("%+v, want %+v; %s %v", key, tt.want, text, err)
		}
	}
	var key Key
	if key.UnmarshalText([]byte("x")) == nil {
		t.Error("no error")
	}
}

// TestFailures: a refusal is its code and its sentence.
func TestFailures(t *testing.T) {
	f := Refuse(Forbidden, "all-held-first")
	if f.Code != Forbidden || f.Text == "" || f.Error() != f.Text {
		t.Errorf("%+v", f)
	}
}

// TestSharedSteps: steps that were carried out are not left, and the plan has a list of its own from then on.
func TestSharedSteps(t *testing.T) {
	p := &planned{plan: plan.Plan{Steps: steps("a 1", "b 1", "c 1")}}
	w := New(0, nil, nil, nil, nil)
	w.Attach(p)
	if shared := w.SharedSteps(); &shared[0] != &p.plan.Steps[0] {
		t.Error("copied for nothing")
	}
	w.forget(&steps("b 1")[0])
	left := w.Steps()
	if namesOf(left) != "a 1, c 1" || cap(left) != 2 {
		t.Errorf("%s, room for %d", namesOf(left), cap(left))
	}
	if own := w.OwnSteps(); &own[0] != &left[0] {
		t.Error("copied twice")
	}
	w.forget(&steps("a 1")[0])
	p.plan.Steps = steps("d 1", "e 1") // a plan whose steps were not indexed yet
	if got := namesOf(w.Steps()); got != "d 1, e 1" {
		t.Errorf("of another plan: %s", got)
	}
	p.plan.Steps = left
	w.NewPlan()
	if own := w.OwnSteps(); &own[0] == &left[0] {
		t.Error("those of another plan may have readers")
	}
	for name, tt := range map[string]struct {
		a, b []plan.Step
		same bool
	}{"none": {nil, []plan.Step{}, true}, "itself": {left, left, true}, "a copy": {left, steps("a 1", "c 1"), false}, "a part": {left, left[:1], false}} {
		if got := sameSteps(tt.a, tt.b); got != tt.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTransferBounds: a transfer leaves only nodes with memory and arrives only where the node has less than its
// share.
func TestTransferBounds(t *testing.T) {
	o := &workload.Observation{Memory: []workload.NodeMemory{{Node: 0, KiB: 50}, {Node: 1, KiB: 0}, {Node: 2, KiB: 30}}}
	step := pagesOf("/a", "2", 1)
	step.Shares = []workload.NodeMemory{{Node: 2, KiB: 30}, {Node: 3, KiB: 1}}
	w := transferFor([]plan.Step{step}, o)
	if len(w.Leaves) != 1 || w.Leaves[0] != 50 || len(w.Arrives) != 1 || w.Arrives[3] != 1 || w.ID != "/a" {
		t.Errorf("%+v", w)
	}
	for want, of := range map[int][2]bool{0: {true, true}, 1: {true, false}, -1: {false, true}} {
		if got := compareBool(of[0], of[1]); got != want {
			t.Errorf("%v: %d", of, got)
		}
	}
	for _, tt := range []struct {
		move plan.Move
		want bool
	}{{plan.Move{}, false}, {plan.Move{RefusedBy: []plan.Refusal{{Cause: plan.Pinned, Bytes: 1}}}, true}} {
		if immovable(&tt.move) != tt.want {
			t.Errorf("%+v", tt.move)
		}
	}
	h := &topology.Host{Nodes: []topology.Node{{ID: 0, Free: 0}}}
	tr := newTraffic(h, 0, map[workload.ID]*Task{"/a": {Transfer: w, Move: &plan.Move{}}, "/b": {}})
	for _, tt := range []struct {
		move *plan.Move
		free topology.KiB
	}{{nil, -1 << 20}, {&plan.Move{}, -1 << 20}, {&plan.Move{Planned: 1}, -1 << 20}, {&plan.Move{Planned: 1, Moved: 1}, 0}} {
		full := newTraffic(h, 0, map[workload.ID]*Task{"/a": {Transfer: hop("/a", 1, 1, 0), Move: tt.move}})
		if full.free[0] != tt.free {
			t.Errorf("%+v: %d KiB free", tt.move, full.free[0])
		}
	}
	if tr.moves != 1 || !tr.leaving[0] || !tr.filling[3] || !tr.lacks(0, 1) || tr.lacks(0, 0) || tr.lacks(3, 1) {
		t.Errorf("%+v", tr)
	}
}
