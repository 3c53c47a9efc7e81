package work

import (
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// at returns an observation of a workload whose threads run on node 0 with a part of its memory there, in per cent.
func at(id workload.ID, local topology.KiB) *workload.Observation {
	return &workload.Observation{
		ID: id, RanOn: []workload.NodeShare{{Node: 0, Share: 1}},
		Memory: []workload.NodeMemory{{Node: 0, KiB: local}, {Node: 1, KiB: 100 - local}},
	}
}

// moves begins the page move of a workload, as a plan does.
func (f *fake) moves(id string, request uint64) *Task {
	step := pagesOf(id, "0", 1000)
	f.plan.Steps = []plan.Step{step}
	task := &Task{Steps: []plan.Step{step, memsOf(id, "0")}, Request: request}
	if request == 0 {
		task.Transfer = transferFor(task.Steps, f.seen[workload.ID(id)])
	}
	f.Begin(workload.ID(id), task)
	return task
}

func (f *fake) progress(m plan.Move) { f.Progressed(&Progress{ID: f.todo[len(f.todo)-1].ID, Move: m}) }

// TestMove: a page move is on disk before its first page moves, and its result decides on the next try.
func TestMove(t *testing.T) {
	f := newFake(t)
	f.seen["/a"] = at("/a", 40)
	task := f.moves("/a", 0)
	f.want("begun",
		"move of /a to 0: running, 0 of 1000",
		"move /a: move-begins",
		"apply /a move-pages 0",
	)
	if m := task.Move; m.LocalityBefore == nil || *m.LocalityBefore != 0.4 || !m.Started.Equal(start) || !task.Writing {
		t.Errorf("%+v", m)
	}
	first := task.Move
	f.At = f.At.Add(500 * time.Millisecond)
	f.progress(plan.Move{Moved: 300, Refused: 1, Why: "busy", RefusedBy: []plan.Refusal{{Cause: plan.Busy, Bytes: 1}}})
	f.want("half a second")
	if m := task.Move; m.Moved != 300 || m.Refused != 1 || m.Why != "busy" || len(m.RefusedBy) != 1 || m.Seconds != 0.5 || first.Moved != 0 {
		t.Errorf("%+v, before %+v", m, first)
	}
	f.At = f.At.Add(500 * time.Millisecond)
	f.progress(plan.Move{Moved: 400})
	f.want("a second",
		"move of /a to 0: running, 400 of 1000",
	)
	f.progress(plan.Move{Moved: 400, State: MovePaused, Why: "the node is full"})
	f.want("paused",
		"move of /a to 0: paused, 400 of 1000",
		"move /a: move-rests",
	)
	f.progress(plan.Move{Moved: 400, State: MovePaused})
	f.want("paused still")
	f.progress(plan.Move{Moved: 500, State: MoveRunning})
	f.want("goes on",
		"move of /a to 0: running, 500 of 1000",
		"move /a: move-goes-on",
	)
	f.At = f.At.Add(time.Second)
	f.Retries[KeyOf(task.Step())] = Retry{Failures: 3}
	f.ends("")
	f.want("done",
		"move of /a to 0: done, 500 of 1000",
		"move /a: move-ended",
		"read /a set-mems 0",
	)
	if m := f.Moves["/a"]; m.Seconds != 2 || len(f.Retries) != 0 || len(f.Steps()) != 0 {
		t.Errorf("%+v, retries %v", m, f.Retries)
	}
	f.Progressed(&Progress{ID: 1, Move: plan.Move{Moved: 999}})
	f.Progressed(&Progress{ID: 77})
	f.want("after its end")
	f.reads("cpuset.mems /a 0-1")
	f.ends("")
	if end := f.Ended["/a"]; end.Scan != 5 || !end.Recorded || end.Settings || end.Asked || end.Target != "/a" || len(f.Tasks) != 0 {
		t.Errorf("%+v", end)
	}
	f.want("end of the task",
		"entry 1 cpuset.mems /a: 0-1 to 0, intended",
		"apply /a set-mems 0",
		"entry 1 cpuset.mems /a: 0-1 to 0, applied",
		"gave /a cpuset.mems 0",
		"changed /a",
		"step /a: step-took",
		"moved /a",
		"ended /a set-mems 0: ok",
	)
}

// TestMoveOfNothing: a move of no bytes has no line in the history, and none if nothing is known of the workload.
func TestMoveOfNothing(t *testing.T) {
	f := newFake(t)
	step := pagesOf("/a", "0", 0)
	f.begins(step)
	if m := f.Tasks["/a"].Move; m.LocalityBefore != nil {
		t.Errorf("%+v", m)
	}
	f.ends("")
	f.begins(pagesOf("/b", "0", 1))
	if !slices.Contains(f.lines, "move /b: move-begins") {
		t.Errorf("%q", f.lines)
	}
	f.lines = f.lines[:len(f.lines)-3]
	f.want("nothing",
		"move of /a to 0: running, 0 of 0",
		"apply /a move-pages 0",
		"move of /a to 0: done, 0 of 0",
	)
}

// TestMoveResults: the history has what a move did, and a move that left much behind waits for its next try.
func TestMoveResults(t *testing.T) {
	pinned := []plan.Refusal{{Cause: plan.Pinned, Bytes: 10}}
	for _, tt := range []struct {
		name string
		move plan.Move
		line string
		wait time.Duration
	}{
		{"all", plan.Move{Moved: 1000}, "move /a: move-ended", 0},
		{"half", plan.Move{Moved: 500, Refused: 500}, "move /a: move-ended-part", 0},
		{"less than half", plan.Move{Moved: 499, Refused: 501}, "move /a: move-ended-part", RetryFirst},
		{"none", plan.Move{Refused: 1000}, "move /a: move-ended-none", RetryFirst},
		{"a part that stays", plan.Move{Moved: 990, Refused: 10, RefusedBy: pinned}, "move /a: move-ended-part", RetryMost},
		{"a byte stays", plan.Move{Moved: 999, Refused: 1}, "move /a: move-ended-part", 0},
		{"a byte stayed", plan.Move{Refused: 1}, "move /a: move-ended-none", RetryFirst},
		{"a byte was moved", plan.Move{Moved: 1}, "move /a: move-ended", RetryFirst},
		{"nothing was there", plan.Move{}, "", RetryFirst},
	} {
		f := newFake(t)
		f.begins(pagesOf("/a", "0", 1000))
		f.progress(tt.move)
		f.lines = nil
		step := *f.Tasks["/a"].Step()
		f.ends("")
		line := ""
		if len(f.lines) > 1 {
			line = f.lines[1]
		}
		r, waits := f.Retries[KeyOf(&step)]
		if line != tt.line || waits != (tt.wait > 0) || (waits && r.Next.Sub(f.At) != tt.wait) {
			t.Errorf("%s: %q, retries %v", tt.name, f.lines, f.Retries)
		}
	}
}

// TestMoveEndsOtherwise: a cancelled move ends its task; a failed one is tried again, and a request gets its failure.
func TestMoveEndsOtherwise(t *testing.T) {
	f := newFake(t)
	f.moves("/a", 0)
	f.lines = nil
	f.ends(Cancelled)
	f.want("cancelled",
		"move of /a to 0: cancelled, 0 of 1000",
		"move /a: move-cancelled",
		"moved /a",
	)
	f.lines = nil
	f.At = f.At.Add(time.Second)
	f.moves("/a", 0)
	f.lines = nil
	f.ends(Failed)
	f.want("failed",
		"move of /a to 0: failed, 0 of 1000",
		"changed /a",
		"!step /a: step-failed",
		"moved /a",
		"ended /a move-pages 0: failed",
	)
	if m := f.Moves["/a"]; m.State != MoveFailed || m.Why != "failed" || len(f.Retries) != 1 {
		t.Errorf("%+v, retries %v", m, f.Retries)
	}
	f = newFake(t, applied(1, plan.CgroupMems, "/a", "0", "0"), applied(2, plan.CgroupCPUs, "/a", "0", "1"), applied(3, plan.CgroupMems, "/b", "0", "0"))
	f.moves("/a", 9)
	f.lines = nil
	f.ends(Failed)
	f.want("of a request",
		"move of /a to 0: failed, 0 of 1000",
		"!move /a: move-failed",
		"entry 1 cpuset.mems /a: 0 to 0, restored",
		"changed /a",
		"read /a set-mems 0",
		"ended /a move-pages 0: failed",
	)
}

// TestTransferWithoutAMove: memory that the kernel moves with its nodes has no record of a move.
func TestTransferWithoutAMove(t *testing.T) {
	f := newFake(t)
	step := memsOf("/a", "0")
	step.AtOnce = false
	f.plan.Steps = []plan.Step{step}
	f.Dispatch()
	f.reads("cpuset.mems /a 0-1")
	f.ends("")
	if end, ok := f.Ended["/a"]; !ok || end.Recorded || end.Settings {
		t.Errorf("%+v", end)
	}
}

// TestShowMoved: the effect of a move on locality is recorded once, by a scan that began after its end.
func TestShowMoved(t *testing.T) {
	before := 0.5
	for _, tt := range []struct {
		name   string
		end    Ended
		seen   *workload.Observation
		moving bool
		move   *plan.Move
		line   string
		waits  bool
	}{
		{name: "recorded", end: Ended{Scan: 3, Recorded: true}, seen: at("/a", 90), move: &plan.Move{LocalityBefore: &before}, line: "move /a: locality-changed"},
		{name: "unknown before", end: Ended{Scan: 3, Recorded: true}, seen: at("/a", 90), move: &plan.Move{}, line: "move /a: locality-after-move"},
		{name: "the scan began before", end: Ended{Scan: 4, Recorded: true}, seen: at("/a", 90), move: &plan.Move{}, waits: true},
		{name: "memory still moves", end: Ended{Scan: 3, Recorded: true}, seen: at("/a", 90), moving: true, move: &plan.Move{}, waits: true},
		{name: "another move", end: Ended{Scan: 3}, seen: at("/a", 90), move: &plan.Move{}},
		{name: "no move", end: Ended{Scan: 3, Recorded: true}, seen: at("/a", 90)},
		{name: "gone", end: Ended{Scan: 3, Recorded: true}, move: &plan.Move{}},
		{name: "unknown after", end: Ended{Scan: 3, Recorded: true}, seen: &workload.Observation{ID: "/a"}, move: &plan.Move{}},
	} {
		f := newFake(t)
		f.Ended["/a"] = tt.end
		if tt.seen != nil {
			seen := *tt.seen
			seen.MemoryMoved = tt.moving
			f.seen["/a"] = &seen
		}
		if tt.move != nil {
			tt.move.Workload, tt.move.Home = "/a", "0"
			f.Moves["/a"] = *tt.move
		}
		f.ShowMoved()
		line := ""
		if len(f.lines) > 1 {
			line = f.lines[1]
		}
		if _, waits := f.Ended["/a"]; waits != tt.waits || line != tt.line {
			t.Errorf("%s: waits %v, %q", tt.name, waits, f.lines)
		}
		if l := f.Moves["/a"].LocalityAfter; (l != nil) != (tt.line != "") || (l != nil && *l != 0.9) {
			t.Errorf("%s: %v", tt.name, l)
		}
	}
}

// TestInterrupt: a move that an earlier daemon did not end is interrupted.
func TestInterrupt(t *testing.T) {
	f := newFake(t)
	for id, state := range map[workload.ID]string{"/a": MoveRunning, "/b": MovePaused, "/c": MoveDone, "/d": MoveFailed, "/e": MoveInterrupted} {
		f.Moves[id] = plan.Move{Workload: id, Home: "0", State: state}
	}
	f.Interrupt()
	f.want("interrupted",
		"move of /a to 0: interrupted, 0 of 0",
		"move /a: move-interrupted",
		"move of /b to 0: interrupted, 0 of 0",
		"move /b: move-interrupted",
	)
}

// TestPutOffMove: a move that waits says why.
func TestPutOffMove(t *testing.T) {
	f := newFake(t)
	step := pagesOf("/a", "0", 1000)
	if why := f.PutOffMove(&step); !why.None() {
		t.Error(why)
	}
	f.putOff(&step, "", "")
	if why := f.PutOffMove(&step); why.Code != words.FlightPutOffRest {
		t.Error(why)
	}
	f.putOff(&step, Failed, "no room")
	if why := f.PutOffMove(&step); why.Code != words.FlightPutOff {
		t.Error(why)
	}
	f.At = f.At.Add(RetryMost)
	if why := f.PutOffMove(&step); !why.None() {
		t.Error(why)
	}
}

// TestCancel: a page move is stopped, and other steps end by themselves; an undo also stops a step that pulls memory.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name   string
		step   plan.Step
		reads  bool // the read has ended
		cancel bool
		stop   bool
	}{
		{"a page move", pagesOf("/a", "0", 1), false, true, true},
		{"CPUs", cpusOf("/a", "0"), true, false, false},
		{"memory nodes", memsOf("/a", "0"), true, false, true},
		{"memory nodes that are being read", memsOf("/a", "0"), false, false, false},
	} {
		for _, stop := range []bool{false, true} {
			f := newFake(t)
			task := f.begins(tt.step)
			if tt.reads {
				f.reads("cpuset.mems /a 0-1")
			}
			f.lines = nil
			want := tt.cancel
			if stop {
				want = tt.stop
				f.stopNow("/a", task)
			} else {
				f.Cancel("/a", task)
			}
			if !task.Cancelled || len(f.lines) != map[bool]int{true: 1}[want] || (want && f.todo[len(f.todo)-1].Of != task.Effect) {
				t.Errorf("%s, stop %v: %q, %+v", tt.name, stop, f.lines, task)
			}
			n := len(f.lines)
			if f.Cancel("/a", task); len(f.lines) != n {
				t.Errorf("%s: cancelled twice: %q", tt.name, f.lines)
			}
		}
	}
	f := newFake(t) // after the move: the next step is not stopped
	task := f.moves("/a", 0)
	f.ends("")
	f.reads("cpuset.mems /a 0-1")
	f.lines = nil
	if f.Cancel("/a", task); len(f.lines) != 0 {
		t.Errorf("%q", f.lines)
	}
}

// TestStop: a daemon that stops cancels all tasks and begins none.
func TestStop(t *testing.T) {
	f := newFake(t)
	a := f.moves("/a", 0)
	b := f.begins(cpusOf("/b", "0"))
	f.lines = nil
	f.Stop()
	f.want("stopped",
		"cancel effect 1 of /a",
	)
	if !a.Cancelled || !b.Cancelled || !f.Stopping {
		t.Error("a task goes on")
	}
	c := f.asks(9, true, cpusOf("/c", "0"))
	f.want("a request",
		"answer 9: cancelled",
	)
	if !c.Cancelled {
		t.Error("it began")
	}
}

// TestTransfersUnderWay: the list of moves in flight is that of the tasks with a transfer.
func TestTransfersUnderWay(t *testing.T) {
	f := newFake(t)
	check := func(name string, n int) {
		t.Helper()
		if got := f.transfers(); len(got) != n {
			t.Errorf("%s: %d in flight, want %d", name, len(got), n)
		}
	}
	f.begins(cpusOf("/c", "0"))
	f.moves("/a", 0)
	check("one", 1)
	f.moves("/b", 0)
	f.begins(cpusOf("/d", "0"))
	check("two", 2)
	f.Cancel("/a", f.Tasks["/a"])
	for f.Tasks["/a"] != nil {
		f.ends(Cancelled)
	}
	check("one ended", 1)
	if f.transfers()["/b"] != f.Tasks["/b"] {
		t.Error("another task")
	}
}

// TestQueue: a task of a request cancels the one under way and begins after it, and after an undo of its workload.
func TestQueue(t *testing.T) {
	f := newFake(t)
	now := f.begins(cpusOf("/a", "0"))
	f.begins(cpusOf("/b", "0"))
	f.asks(8, false, cpusOf("/b", "1"))
	f.asks(9, false, cpusOf("/a", "1"))
	f.asks(10, false, cpusOf("/a", "2"))
	if !now.Cancelled || len(f.Queued) != 3 {
		t.Fatalf("%+v, %d wait", now, len(f.Queued))
	}
	f.lines = nil
	f.reads("cpuset.cpus /a 0-7")
	f.want("the first ends",
		"read /a set-cpus 1",
	)
	if len(f.Queued) != 2 || f.Tasks["/a"].Request != 9 {
		t.Errorf("%d wait, %+v", len(f.Queued), f.Tasks["/a"])
	}

	f = newFake(t, applied(1, plan.CgroupCPUs, "/a", "0-7", "0"))
	f.Undo(7, Which{ID: "/a"}, nil)
	f.asks(9, false, cpusOf("/a", "1"))
	f.asks(10, false, cpusOf("/b", "1"))
	f.want("during an undo",
		"save undoing [{/a false false false  false false}]",
		"restore cpuset.cpus of /a",
		"read /b set-cpus 1",
	)
	f.ends("")
	f.want("after it",
		"undo /a: put-back",
		"changed /a",
		"entry 1 cpuset.cpus /a: 0-7 to 0, restored",
		"out of the journal: 1 restored",
		"save undoing []",
		"undone 7",
		"read /a set-cpus 1",
	)
}
