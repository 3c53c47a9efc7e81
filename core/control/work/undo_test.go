package work

import (
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What is being put back holds up the steps about it, and those that need its controllers.
func TestWhatIsBeingPutBack(t *testing.T) {
	w := New(0, nil, nil, nil, nil)
	w.Undoing = []*Undoing{{}, {Running: map[uint64][]plan.Entry{1: {
		{Workload: "/a", Kind: plan.CgroupCPUs, Path: "/a"}, {Workload: "pid:7", Kind: plan.Affinity, Path: "7@1"}, {Workload: "/y", Kind: plan.CgroupControllers, Path: "/x"}}}}}
	for _, tt := range []struct {
		kind  plan.SettingKind
		path  string
		waits bool
	}{{plan.CgroupCPUs, "/a", true}, {plan.CgroupMems, "/a", false}, {plan.CgroupCPUs, "/b", false}, {plan.Affinity, "7@1", true}, {plan.Affinity, "8@1", false}, {plan.CgroupCPUs, "/x/b", true}, {plan.CgroupCPUs, "/x", false}} {
		if got := w.restoring(&plan.Change{Setting: plan.Setting{Kind: tt.kind, Path: tt.path}}); got != tt.waits {
			t.Errorf("%s of %s: %v", tt.kind, tt.path, got)
		}
	}
	process := func(pid int) plan.Target {
		return plan.Target{Processes: []workload.Process{{PID: 5, Start: 1}, {PID: pid, Start: 1}}}
	}
	for _, tt := range []struct {
		step  plan.Step
		waits bool
	}{
		{plan.Step{Workload: "/a"}, true}, {plan.Step{Workload: "/b"}, false}, {plan.Step{Workload: "/x/b", Target: plan.Target{Cgroup: "/x/b"}}, true},
		{plan.Step{Workload: "pid:9", Target: process(7)}, true}, {plan.Step{Workload: "pid:7", Target: process(8)}, false},
	} {
		if got := w.needsRestored(&tt.step); got != tt.waits {
			t.Errorf("%+v: %v", tt.step, got)
		}
	}
}

// undoable returns a fake with settings of two workloads, a controller and a setting of the host.
func undoable(t *testing.T) *fake {
	controllers := applied(1, plan.CgroupControllers, "/", "", "cpuset")
	controllers.Workload = "/a"
	affinity := applied(4, plan.Affinity, "7@1", "0-7", "0")
	affinity.Workload = "pid:7"
	host := applied(6, plan.HostFile, "/x", "0", "1")
	host.Workload = "host"
	return newFake(t, controllers, applied(2, plan.CgroupCPUs, "/a", "0-7", "0"), applied(3, plan.CgroupMems, "/a", "0-1", "0"), affinity, applied(5, plan.CgroupCPUs, "/b", "0-7", "1"), host)
}

// ofEffect ends the effect about a path.
func (f *fake) ofEffect(path string, each ...*Failure) {
	f.t.Helper()
	for i, e := range f.todo {
		if e.Kind == EffectRestore && slices.ContainsFunc(e.Entries, func(e plan.Entry) bool { return e.Path == path }) {
			f.todo = slices.Delete(f.todo, i, i+1)
			if !f.UndoResult(&Result{ID: e.ID, Each: each}) {
				f.t.Fatal("no undo has that effect")
			}
			return
		}
	}
	f.t.Fatalf("nothing about %s is being restored", path)
}

// TestUndoOrder: affinities are restored together, other settings workload by workload with the last change first, and
// controllers when nothing below needs them.
func TestUndoOrder(t *testing.T) {
	f := undoable(t)
	f.Undo(9, Which{All: true}, nil)
	f.want("begun",
		"save undoing [{ true false false  false false}]",
		"restore affinity of 7@1",
		"restore file of /x",
		"restore cpuset.cpus of /b",
		"restore cpuset.mems of /a, cpuset.cpus of /a",
	)
	if f.UndoResult(&Result{ID: 77}) {
		t.Error("a result of nothing")
	}
	f.ofEffect("/x")
	f.want("the host",
		"undo host: put-back",
		"changed host",
		"entry 6 file /x: 0 to 1, restored",
		"out of the journal: 6 restored",
	)
	f.ofEffect("7@1")
	f.want("affinities",
		"undo pid:7: put-back",
		"changed pid:7",
		"restored the affinity of 7@1",
		"entry 4 affinity 7@1: 0-7 to 0, restored",
		"out of the journal: 4 restored",
	)
	f.ofEffect("/a")
	f.want("a",
		"undo /a: put-back",
		"changed /a",
		"entry 3 cpuset.mems /a: 0-1 to 0, restored",
		"out of the journal: 3 restored",
		"undo /a: put-back",
		"changed /a",
		"entry 2 cpuset.cpus /a: 0-7 to 0, restored",
		"out of the journal: 2 restored",
	)
	f.ofEffect("/b")
	f.want("b",
		"undo /b: put-back",
		"changed /b",
		"entry 5 cpuset.cpus /b: 0-7 to 1, restored",
		"out of the journal: 5 restored",
		"restore cgroup.subtree_control of /",
	)
	f.ofEffect("/")
	f.want("controllers",
		"undo /a: put-back",
		"changed /a",
		"entry 1 cgroup.subtree_control /:  to cpuset, restored",
		"out of the journal: 1 restored",
		"save undoing []",
		"undone 9",
	)
	if u := f.undone[9]; len(u.Restored) != 6 || u.Workload != "" || f.Journal.Len() != 0 || len(f.Undoing) != 0 {
		t.Errorf("%+v", u)
	}
}

// TestUndoOfOne: the undo of a workload restores its settings, and a controller that was turned on for it with the last.
func TestUndoOfOne(t *testing.T) {
	f := undoable(t)
	f.Undo(9, Which{ID: "/a"}, nil)
	f.want("begun",
		"save undoing [{/a false false false  false false}]",
		"restore cpuset.mems of /a, cpuset.cpus of /a",
	)
	f.ofEffect("/a")
	f.want("ended",
		"undo /a: put-back",
		"changed /a",
		"entry 3 cpuset.mems /a: 0-1 to 0, restored",
		"out of the journal: 3 restored",
		"undo /a: put-back",
		"changed /a",
		"entry 2 cpuset.cpus /a: 0-7 to 0, restored",
		"out of the journal: 2 restored",
		"restore cgroup.subtree_control of /",
	)
	f.ofEffect("/")
	f.lines = nil
	f.Undo(10, Which{ID: "/none"}, nil)
	f.want("of nothing",
		"save undoing [{/none false false false  false false}]",
		"save undoing []",
		"undone 10",
	)
	f.Undo(11, Which{All: true, Only: plan.CgroupCPUs}, nil)
	f.want("of one kind",
		"save undoing [{ true false false cpuset.cpus false false}]",
		"restore cpuset.cpus of /b",
	)
}

// TestUndoResults: an entry leaves the journal when its setting has its old value or is not homenode's any more; it
// stays where the restore failed or waits for others.
func TestUndoResults(t *testing.T) {
	for _, tt := range []struct {
		code  Code
		state plan.EntryState // "" stays
		kind  func(*Undone) int
		line  string // of an undo that the user ordered
		quiet string // of one that homenode does by itself
	}{
		{"", plan.Restored, func(u *Undone) int { return len(u.Restored) }, "undo /a: put-back", "undo /a: put-back"},
		{Unchanged, plan.Restored, func(u *Undone) int { return len(u.Unchanged) }, "undo /a: stood-as-before", "undo /a: stood-as-before"},
		{Gone, plan.Gone, func(u *Undone) int { return len(u.Gone) }, "undo /a: nothing-to-restore", ""},
		{Foreign, plan.Gone, func(u *Undone) int { return len(u.Foreign) }, "undo /a: not-restored-theirs", "undo /a: not-restored-theirs"},
		{InUse, "", func(u *Undone) int { return len(u.Deferred) }, "undo /a: restored-later", "undo /a: restored-later, once"},
		{Failed, "", func(u *Undone) int { return len(u.Failed) }, "!undo /a: not-restored", "!undo /a: not-restored"},
	} {
		for _, ordered := range []bool{true, false} {
			f := newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0"))
			request, line := uint64(0), tt.quiet
			if ordered {
				request, line = 9, tt.line
				f.Undo(9, Which{ID: "/a"}, nil)
			} else {
				f.RestoreOnly("/a", map[uint64]bool{1: true})
			}
			f.lines = nil
			f.ends(tt.code)
			if line != "" && f.lines[0] != line || line == "" && f.lines[0][:4] == "undo" {
				t.Errorf("%q, ordered %v: %q", tt.code, ordered, f.lines)
			}
			u := f.undone[request]
			if u == nil || tt.kind(u) != 1 || len(u.Restored)+len(u.Unchanged)+len(u.Gone)+len(u.Foreign)+len(u.Deferred)+len(u.Failed) != 1 {
				t.Errorf("%q, ordered %v: %+v", tt.code, ordered, u)
			}
			out := slices.Contains(f.lines, "entry 1 cpuset.cpus /a: 0-7 to 0, "+string(tt.state))
			told := slices.ContainsFunc(f.lines, func(l string) bool { return strings.HasPrefix(l, "out of the journal: 1 ") })
			if left := f.Journal.Len() == 1; left != (tt.state == "") || out == left || told == left {
				t.Errorf("%q, ordered %v: %q", tt.code, ordered, f.lines)
			}
			if (len(f.Theirs) == 1) != (tt.code == Foreign) || slices.Contains(f.lines, "changed /a") != (tt.state == plan.Restored) {
				t.Errorf("%q, ordered %v: %q", tt.code, ordered, f.lines)
			}
			if len(u.Deferred) == 1 && (u.Deferred[0].Error != "in use" || u.Deferred[0].Entry.Seq != 1) || len(u.Failed) == 1 && u.Failed[0].Error != "failed" {
				t.Errorf("%+v", u)
			}
		}
	}
}

// TestUndoResultsOfEach: each entry of a restore has its own result, unless the whole restore failed.
func TestUndoResultsOfEach(t *testing.T) {
	begin := func() *fake {
		f := newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0"), applied(2, plan.CgroupMems, "/a", "0-1", "0"), applied(3, plan.CgroupIdle, "/a", "0", "1"))
		f.Undo(9, Which{ID: "/a"}, nil)
		return f
	}
	f := begin()
	f.UndoResult(&Result{ID: f.next().ID, Each: []*Failure{{Code: Failed}, nil}}) // the third has none
	if u := f.undone[9]; len(u.Failed) != 1 || u.Failed[0].Entry.Seq != 3 || len(u.Restored) != 2 {
		t.Errorf("%+v", u)
	}
	f = begin()
	f.UndoResult(&Result{ID: f.next().ID, Failed: &Failure{Code: NoAnswer}, Each: []*Failure{nil, nil, nil}, Frozen: 1})
	if u := f.undone[9]; len(u.Failed) != 3 || !slices.Contains(f.lines, "undo /a: was-frozen") {
		t.Errorf("%+v, %q", u, f.lines)
	}
	f = begin() // an entry that went meanwhile
	f.Mark(f.Journal.At(2), plan.Gone)
	f.lines = nil
	f.ends("")
	if slices.Contains(f.lines, "entry 2 cpuset.mems /a: 0-1 to 0, restored") || !slices.Contains(f.lines, "entry 1 cpuset.cpus /a: 0-7 to 0, restored") {
		t.Errorf("%q", f.lines)
	}
}

// TestUndoOfRun: an undo of an affinity that `homenode run` set names the workload, for its memory policy stays.
func TestUndoOfRun(t *testing.T) {
	f := undoable(t)
	f.ofRun["7@1"] = topology.CPUs(0)
	dry := f.DryUndo(Which{All: true}, nil)
	if len(dry.Policies) != 1 || dry.Policies[0] != "pid:7" {
		t.Errorf("%+v", dry)
	}
	f.Undo(9, Which{ID: "pid:7"}, nil)
	e := f.next()
	if len(e.Journal) != 1 || e.Workload != "pid:7" {
		t.Errorf("%+v", e)
	}
	f.UndoResult(&Result{ID: e.ID})
	if u := f.undone[9]; len(u.Policies) != 1 || u.Policies[0] != "pid:7" || u.Workload != "pid:7" {
		t.Errorf("%+v", u)
	}
	f.Undo(10, Which{ID: "/a"}, nil)
	if e := f.next(); e.Journal != nil {
		t.Errorf("nothing inherits from a cgroup: %+v", e)
	}
}

// TestDryUndo: a dry run returns what an undo would restore, the last change first, and changes nothing.
func TestDryUndo(t *testing.T) {
	f := undoable(t)
	more := []plan.Entry{applied(7, plan.CgroupCPUs, "/a/c", "", "0"), applied(8, plan.CgroupCPUs, "/z", "", "0")}
	more[0].Workload = "/a"
	u := f.DryUndo(Which{ID: "/a"}, more)
	var seqs []uint64
	for _, e := range u.Restored {
		seqs = append(seqs, e.Seq)
	}
	if !slices.Equal(seqs, []uint64{7, 3, 2, 1}) || u.Workload != "/a" || len(u.Policies) != 0 {
		t.Errorf("%v, %+v", seqs, u)
	}
	f.want("nothing")
	if f.Journal.Len() != 6 || len(f.Undoing) != 0 {
		t.Error("it is undone")
	}
}

// TestUndoTakesMore: settings that are found for an undo are journalled first; an undo of one kind takes none.
func TestUndoTakesMore(t *testing.T) {
	more := []plan.Entry{applied(7, plan.CgroupCPUs, "/b", "", "0"), applied(8, plan.CgroupMems, "/b", "", "0")}
	for only, want := range map[plan.SettingKind]uint64{"": 8, plan.CgroupMems: 1} {
		f := newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0"))
		f.Undo(9, Which{All: true, Only: only}, more)
		if f.Seq != want || (f.Journal.Len() == 3) != (only == "") {
			t.Errorf("only %q: seq %d, %d entries", only, f.Seq, f.Journal.Len())
		}
	}
}

// TestUndoStopsTasks: an undo cancels the tasks of its workloads, also of targets that were set under another ID, and
// those that wait; an undo of one kind cancels none.
func TestUndoStopsTasks(t *testing.T) {
	for _, tt := range []struct {
		which   Which
		stopped string
	}{
		{Which{ID: "/a"}, "/a /x"},
		{Which{ID: "/b"}, "/b"},
		{Which{All: true}, "/a /b /x"},
		{Which{All: true, Only: plan.CgroupMems}, ""},
	} {
		earlier := applied(1, plan.CgroupMems, "/x", "0-1", "0")
		earlier.Workload = "/a"
		other := applied(2, plan.CgroupCPUs, "/x", "0-7", "0")
		other.Workload = "/other"
		f := newFake(t, earlier, other)
		for _, id := range []string{"/a", "/b", "/x"} {
			f.begins(cpusOf(id, "0"))
		}
		a, b := &Queued{"/a", &Task{}}, &Queued{"/b", &Task{}}
		f.Queued = []*Queued{a, b}
		tasks := map[workload.ID]*Task{"/a": f.Tasks["/a"], "/b": f.Tasks["/b"], "/x": f.Tasks["/x"]}
		f.Undo(9, tt.which, nil)
		got := ""
		for _, id := range sortedKeys(tasks) {
			if tasks[id].Cancelled {
				got += " " + string(id)
			}
		}
		if len(got) > 0 {
			got = got[1:]
		}
		ofA, ofB := tt.which.Only == "" && tt.which.Has("/a"), tt.which.Only == "" && tt.which.Has("/b")
		if got != tt.stopped || a.Task.Cancelled != ofA || b.Task.Cancelled != ofB {
			t.Errorf("%+v: %q, want %q; waiting %v %v", tt.which, got, tt.stopped, a.Task.Cancelled, b.Task.Cancelled)
		}
	}
}

// TestUndoTakesOver: an undo continues those that a command has left, which have nothing under way.
func TestUndoTakesOver(t *testing.T) {
	running := map[uint64][]plan.Entry{99: {applied(9, plan.CgroupCPUs, "/z", "", "")}}
	for _, tt := range []struct {
		name  string
		was   Undoing
		which Which
		over  bool
		told  bool
	}{
		{"the same", Undoing{Which: Which{ID: "/a"}}, Which{ID: "/a"}, true, true},
		{"all", Undoing{Which: Which{ID: "/a"}}, Which{All: true}, true, true},
		{"all but the host's", Undoing{Which: Which{ID: "/a"}}, Which{All: true, Own: true}, false, false},
		{"another", Undoing{Which: Which{ID: "/b"}}, Which{ID: "/a"}, false, false},
		{"somebody waits for it", Undoing{Which: Which{ID: "/a"}, Request: 5}, Which{ID: "/a"}, false, false},
		{"it has something under way", Undoing{Which: Which{ID: "/a"}, Running: running}, Which{ID: "/a"}, false, false},
		{"of homenode itself", Undoing{Of: "/a", Entries: map[uint64]bool{}}, Which{All: true}, true, false},
	} {
		f := newFake(t)
		blocks := f.begins(cpusOf("/q", "0")) // so that no undo of /q ends
		blocks.Writing, blocks.Entries = true, []uint64{1}
		f.Put(applied(1, plan.CgroupCPUs, "/q", "", "0"))
		was := tt.was
		f.Undoing = []*Undoing{&was}
		f.lines = nil
		f.Undo(9, tt.which, nil)
		told := slices.ContainsFunc(f.lines, func(l string) bool { return l == "undo /a: undo-goes-on" || l == "undo : undo-goes-on" })
		if told != tt.told {
			t.Errorf("%s: %q", tt.name, f.lines)
		}
		if _, own := f.undone[0]; own == tt.over && was.Request == 0 && was.Running == nil || len(f.Undoing) > 2 {
			t.Errorf("%s: taken over %v, %d under way, %q", tt.name, !own, len(f.Undoing), f.lines)
		}
	}
}

// TestUndoWaitsForWrites: an entry is not restored while its setting is being written, nor a controller while a step
// below needs it; the end of the task goes on with the undo.
func TestUndoWaitsForWrites(t *testing.T) {
	f := undoable(t)
	f.begins(cpusOf("/a", "2"))
	f.reads("cpuset.cpus /a 0")
	f.lines = nil
	f.Undo(9, Which{ID: "/a"}, nil)
	if !f.Tasks["/a"].Cancelled {
		t.Error("the task goes on")
	}
	f.want("during the write",
		"save undoing [{/a false false false  false false}]",
		"restore cpuset.mems of /a",
	)
	f.ends("") // of the write
	f.want("after the write",
		"entry 2 cpuset.cpus /a: 0-7 to 2, applied",
		"gave /a cpuset.cpus 2",
		"changed /a",
		"step /a: step-took",
		"ended /a set-cpus 2: ok",
	)
	f.ends("")
	f.ends("")
	f.ends("")
	if u := f.undone[9]; u == nil || len(u.Restored) != 3 {
		t.Errorf("%+v", u)
	}
}

// TestControllersAreNeeded: a controller is restored when no step below its cgroup is under way.
func TestControllersAreNeeded(t *testing.T) {
	f := undoable(t)
	f.begins(cpusOf("/", "2")) // not below
	f.begins(cpusOf("/b", "2"))
	f.todo = slices.Delete(f.todo, 0, 1)
	f.Undo(9, Which{ID: "/a"}, nil)
	f.lines = nil
	f.ofEffect("/a")
	f.want("b needs it",
		"undo /a: put-back",
		"changed /a",
		"entry 3 cpuset.mems /a: 0-1 to 0, restored",
		"out of the journal: 3 restored",
		"undo /a: put-back",
		"changed /a",
		"entry 2 cpuset.cpus /a: 0-7 to 0, restored",
		"out of the journal: 2 restored",
	)
	f.ends(Cancelled)
	f.want("b has ended",
		"restore cgroup.subtree_control of /",
		"ended /b set-cpus 2: cancelled",
	)
}

// TestTwoUndos: what one undo restores another does not, and both wait for it.
func TestTwoUndos(t *testing.T) {
	f := newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0"), applied(2, plan.CgroupCPUs, "/b", "0-7", "0"))
	f.Undo(8, Which{ID: "/a"}, nil)
	f.Undo(9, Which{All: true}, nil)
	f.want("begun",
		"save undoing [{/a false false false  false false}]",
		"restore cpuset.cpus of /a",
		"save undoing [{/a false false false  false false} { true false false  false false}]",
		"restore cpuset.cpus of /b",
	)
	f.ofEffect("/b")
	f.want("b is restored",
		"undo /b: put-back",
		"changed /b",
		"entry 2 cpuset.cpus /b: 0-7 to 0, restored",
		"out of the journal: 2 restored",
	)
	f.ofEffect("/a")
	f.want("a is restored, and both end",
		"undo /a: put-back",
		"changed /a",
		"entry 1 cpuset.cpus /a: 0-7 to 0, restored",
		"out of the journal: 1 restored",
		"save undoing [{ true false false  false false}]",
		"undone 8",
		"save undoing []",
		"undone 9",
	)
}

// TestOneWorkloadAtATime: the entries of a workload that were found later are restored after those under way.
func TestOneWorkloadAtATime(t *testing.T) {
	f := newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0"))
	f.Undo(9, Which{ID: "/a"}, nil)
	f.Put(applied(2, plan.CgroupMems, "/a", "0-1", "0"))
	f.lines = nil
	f.UndoMore()
	f.want("it waits")
	f.ends("")
	f.want("it follows",
		"undo /a: put-back",
		"changed /a",
		"entry 1 cpuset.cpus /a: 0-7 to 0, restored",
		"out of the journal: 1 restored",
		"restore cpuset.mems of /a",
	)
}

// TestDividedThreads: divided threads are restored before the affinity of their process, and nothing waits for others.
func TestDividedThreads(t *testing.T) {
	of := func(e plan.Entry, id workload.ID) plan.Entry { e.Workload = id; return e }
	f := newFake(t,
		of(applied(1, plan.ThreadCPUs, "7@1", "0-7", "0;1"), "pid:7"), of(applied(2, plan.Affinity, "7@1", "0-7", "0"), "pid:7"),
		of(applied(3, plan.Affinity, "8@1", "0-7", "0"), "pid:8"))
	f.Undo(9, Which{All: true}, nil)
	f.want("begun",
		"save undoing [{ true false false  false false}]",
		"restore affinity.threads of 7@1",
		"restore affinity of 8@1",
	)
	f.ofEffect("8@1")
	f.want("another process",
		"undo pid:8: put-back",
		"changed pid:8",
		"restored the affinity of 8@1",
		"entry 3 affinity 8@1: 0-7 to 0, restored",
		"out of the journal: 3 restored",
	)
	f.ofEffect("7@1")
	f.want("threads",
		"undo pid:7: put-back",
		"changed pid:7",
		"entry 1 affinity.threads 7@1: 0-7 to 0;1, restored",
		"out of the journal: 1 restored",
		"restore affinity of 7@1",
	)
	f.ofEffect("7@1")
	f.want("the process",
		"undo pid:7: put-back",
		"changed pid:7",
		"restored the affinity of 7@1",
		"entry 2 affinity 7@1: 0-7 to 0, restored",
		"out of the journal: 2 restored",
		"save undoing []",
		"undone 9",
	)

	f = newFake(t, of(applied(1, plan.ThreadCPUs, "7@1", "0-7", "0;1"), "pid:7"), of(applied(2, plan.Affinity, "7@1", "0-7", "0"), "pid:7"))
	f.Tasks["pid:7"] = &Task{Writing: true, Entries: []uint64{1}, Steps: []plan.Step{process("pid:7", "0", 7)}}
	f.Undo(9, Which{All: true}, nil)
	f.want("threads are being divided",
		"save undoing [{ true false false  false false}]",
	)
}

// TestRemadeSettings: what makes other settings of a device anew is restored before them.
func TestRemadeSettings(t *testing.T) {
	of := func(e plan.Entry) plan.Entry { e.Workload = "eth0"; return e }
	f := newFake(t, of(applied(1, plan.QueueCount, "eth0", "8", "4")), of(applied(2, plan.RPSCPUs, "eth0/rx-0", "0", "3")), of(applied(3, plan.RPSCPUs, "eth0/rx-1", "0", "3")))
	f.Undo(9, Which{ID: "eth0"}, nil)
	f.want("begun",
		"save undoing [{eth0 false false false  false false}]",
		"restore queues of eth0, rps_cpus of eth0/rx-1, rps_cpus of eth0/rx-0",
	)
}

// TestGoOn: a daemon goes on with the undos of the one before.
func TestGoOn(t *testing.T) {
	w := New(3, []plan.Entry{applied(1, plan.CgroupCPUs, "/a", "0-7", "0")}, nil, nil, []Which{{ID: "/a"}, {All: true, Sharing: true}})
	f := newFake(t)
	w.Attach(f)
	f.Work = &w
	f.GoOn()
	f.want("goes on",
		"undo /a: undo-goes-on",
		"restore cpuset.cpus of /a",
	)
}

// TestSavedUndos: the undos that the user ordered are on disk, and none that homenode does by itself.
func TestSavedUndos(t *testing.T) {
	f := newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0"), applied(2, plan.CgroupCPUs, "/b", "0-7", "0"))
	f.RestoreOnly("/a", map[uint64]bool{1: true})
	f.want("by itself",
		"restore cpuset.cpus of /a",
	)
	if !f.Undoes("/a") || f.Undoes("/b") || f.Undoing[0].has(f.Journal.At(2)) {
		t.Error("of another workload")
	}
	f.Undo(9, Which{ID: "/b"}, nil)
	f.want("ordered",
		"save undoing [{/b false false false  false false}]",
		"restore cpuset.cpus of /b",
	)
	f.ofEffect("/a")
	f.want("end of that by itself",
		"undo /a: put-back",
		"changed /a",
		"entry 1 cpuset.cpus /a: 0-7 to 0, restored",
		"out of the journal: 1 restored",
		"undone 0",
	)
	f.ofEffect("/b")
	f.want("end of that ordered",
		"undo /b: put-back",
		"changed /b",
		"entry 2 cpuset.cpus /b: 0-7 to 0, restored",
		"out of the journal: 2 restored",
		"save undoing []",
		"undone 9",
	)
}
