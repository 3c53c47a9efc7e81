package control

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// hop is a transfer of gib from one node to another.
func hop(id string, gib int, from, to topology.NodeID) *transfer {
	kib := topology.KiB(gib) << 20
	return &transfer{ID: workload.ID(id), Bytes: int64(kib) << 10,
		Leaves: map[topology.NodeID]topology.KiB{from: kib}, Arrives: map[topology.NodeID]topology.KiB{to: kib}}
}

func aged(w *transfer) *transfer { w.Aged = true; return w }

func TestChooseTransfers(t *testing.T) {
	flight := func(w *transfer, moved int) *Task {
		return &Task{Transfer: w, Move: &plan.Move{Planned: w.Bytes, Moved: int64(moved) << 30}}
	}
	many := []*transfer{}
	for n := range topology.NodeID(12) {
		many = append(many, hop(string(rune('a'+n)), 1, n, n+12))
	}
	for _, c := range []struct {
		name   string
		free   []int // GiB by node; 100 beyond
		flight []*Task
		wait   []*transfer
		want   string
	}{
		{name: "one of a pair, the smaller first", wait: []*transfer{hop("a", 9, 0, 1), hop("b", 2, 0, 1)}, want: "b"},
		{name: "a big one does not hold up other pairs", flight: []*Task{flight(hop("big", 90, 0, 1), 1)},
			wait: []*transfer{hop("a", 1, 0, 1), hop("b", 2, 1, 0), hop("c", 3, 2, 3)}, want: "b c"},
		{name: "what has waited long goes first", wait: []*transfer{aged(hop("a", 9, 0, 1)), hop("b", 2, 0, 1)}, want: "a"},
		{name: "what leaves a full node goes first, and what wants in waits", free: []int{100, 1, 100},
			wait: []*transfer{hop("a", 4, 0, 1), hop("b", 8, 1, 2), hop("c", 2, 2, 0)}, want: "b c"},
		{name: "it waits while that goes on", free: []int{100, 1, 100}, flight: []*Task{flight(hop("b", 8, 1, 2), 4)},
			wait: []*transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "and goes when there is room", free: []int{100, 5, 100}, flight: []*Task{flight(hop("b", 8, 1, 2), 4)},
			wait: []*transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "what is on its way counts", free: []int{100, 5, 100}, flight: []*Task{flight(hop("b", 8, 2, 1), 4), flight(hop("d", 1, 1, 3), 0)},
			wait: []*transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "of a move only what is still to come", free: []int{100, 9, 100}, flight: []*Task{flight(hop("b", 8, 2, 1), 6)},
			wait: []*transfer{hop("a", 6, 0, 1)}, want: "a"},
		{name: "one that brings more than was planned gives no room", free: []int{100, 3, 100}, flight: []*Task{flight(hop("b", 8, 2, 1), 12)},
			wait: []*transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "with nobody leaving it is tried all the same", free: []int{100, 1}, wait: []*transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "two full nodes that want to swap: one begins", free: []int{0, 0}, wait: []*transfer{hop("a", 4, 0, 1), hop("b", 4, 1, 0)}, want: "a"},
		{name: "a wide one into full nodes waits", free: []int{1, 1, 50, 50},
			wait: []*transfer{{ID: "a", Bytes: 1, Leaves: map[topology.NodeID]topology.KiB{2: 8 << 20, 3: 8 << 20},
				Arrives: map[topology.NodeID]topology.KiB{0: 8 << 20, 1: 8 << 20}}, hop("b", 8, 0, 2), hop("c", 8, 1, 3)}, want: "b c"},
		{name: "two that fit one by one, not both: the second waits", free: []int{100, 10, 100},
			wait: []*transfer{hop("a", 8, 0, 1), hop("b", 9, 2, 1)}, want: "a"},
		{name: "it waits for what is on its way", free: []int{100, 10, 100}, flight: []*Task{flight(hop("a", 8, 0, 1), 0)},
			wait: []*transfer{hop("b", 9, 2, 1)}, want: ""},
		{name: "and is tried when that has come", free: []int{100, 2, 100}, wait: []*transfer{hop("b", 9, 2, 1)}, want: "b"},
		{name: "one that never fitted waits for it too", free: []int{100, 5, 100},
			wait: []*transfer{hop("a", 4, 0, 1), hop("b", 9, 2, 1)}, want: "a"},
		{name: "not more than a few", wait: many, want: "a b c"},
		{name: "what exactly fits", free: []int{100, 4}, flight: []*Task{flight(hop("d", 1, 1, 3), 0)}, wait: []*transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "of equals the first by name", wait: []*transfer{hop("b", 2, 0, 1), hop("a", 2, 0, 1)}, want: "a"},
	} {
		h := &topology.Host{}
		for n := range topology.NodeID(24) {
			free := topology.KiB(100)
			if int(n) < len(c.free) {
				free = topology.KiB(c.free[n])
			}
			h.Nodes = append(h.Nodes, topology.Node{ID: n, Free: free << 20})
		}
		tasks := map[workload.ID]*Task{"settings": {}}
		for _, x := range c.flight {
			tasks[x.Transfer.ID] = x
		}
		backwards := slices.Clone(c.wait)
		slices.Reverse(backwards)
		for _, order := range [][]*transfer{c.wait, backwards} {
			var got []string
			for _, w := range newTraffic(h, 0, tasks).choose(order) {
				got = append(got, string(w.ID))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	}
	// What is reserved is not there, and of a node of unknown memory nothing is known.
	h := &topology.Host{Nodes: []topology.Node{{ID: 0, Free: 9 << 20}, {ID: 1, Free: 5 << 20}, {ID: 2, Free: topology.None}}}
	busy := map[workload.ID]*Task{"x": flight(hop("x", 1, 1, 0), 0)}
	if got := newTraffic(h, 2<<20, busy).choose([]*transfer{hop("a", 4, 0, 1)}); len(got) != 0 {
		t.Error("memory that is reserved is filled")
	}
	if got := newTraffic(h, 0, busy).choose([]*transfer{hop("a", 400, 0, 2)}); len(got) != 1 {
		t.Error("a node of unknown memory is taken to be full")
	}
	if got := newTraffic(nil, 0, nil).choose([]*transfer{hop("a", 4, 0, 1)}); len(got) != 1 {
		t.Error("without a host nothing begins")
	}
}

func TestTransferFor(t *testing.T) {
	mem := func(kib ...topology.KiB) (out []workload.NodeMemory) {
		for n, k := range kib {
			out = append(out, workload.NodeMemory{Node: topology.NodeID(n), KiB: k})
		}
		return out
	}
	o := &workload.Observation{Memory: mem(40, 30, 0, 20)}
	steps := []plan.Step{{Kind: plan.SetMems, To: "0-3"}, {Kind: plan.MovePages, Workload: "a", To: "1-2"}}
	w := transferFor(steps, o)
	if w.Bytes != 60<<10 || len(w.Leaves) != 2 || w.Leaves[0] != 40 || w.Leaves[3] != 20 || len(w.Arrives) != 2 || w.Arrives[1] != 30 || w.Arrives[2] != 30 {
		t.Errorf("%+v", w)
	}
	steps[1].Shares = []workload.NodeMemory{{Node: 2, KiB: 50}, {Node: 1, KiB: 40}}
	if w = transferFor(steps, o); len(w.Arrives) != 2 || w.Arrives[1] != 10 || w.Arrives[2] != 50 {
		t.Errorf("with shares %+v", w)
	}
	o.Movable = mem(5, 30, 0, 0)
	if w = transferFor(steps, o); w.Bytes != 5<<10 || len(w.Leaves) != 1 || len(w.pairs()) != 2 {
		t.Errorf("of what can be moved %+v", w)
	}
	for _, bad := range []string{"", "x"} {
		steps[1].To = bad
		if w := transferFor(steps, o); len(w.Leaves)+len(w.Arrives) != 0 {
			t.Errorf("to %q: %+v", bad, w)
		}
	}
	if w := transferFor(steps[:1], nil); len(w.Leaves) != 0 || len(w.Steps) != 1 {
		t.Errorf("of nobody: %+v", w)
	}
}

// The record of a page move is on disk before the first page moves, again at most once a
// second, and with its end.
func TestRecordOfAMove(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0, 1)
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.MovePages }
	f.scan(1)
	if len(f.kept) != 1 || f.disk.moves[id].State != moveRunning || f.disk.moves[id].Planned != 512<<20 || f.told(words.MoveBegins) != 1 {
		t.Fatalf("%+v", f.disk.moves[id])
	}
	if b := f.disk.moves[id].LocalityBefore; b == nil || *b > 0.9 {
		t.Errorf("locality before %v", b)
	}
	began := f.disk.moves[id].Started
	e := f.kept[0]
	progress := func(at time.Duration, moved int64, state string) plan.Move {
		f.now = began.Add(at)
		f.turn(Input{Progress: &Progress{ID: e.ID, Move: plan.Move{Moved: moved, State: state, Why: "busy", Home: "7", Planned: 3, Started: f.now}}})
		return *f.s.View().Tasks[id].Move
	}
	if m := progress(999*time.Millisecond, 1, moveRunning); m.Moved != 1 || f.disk.moves[id].Moved != 0 || m.Planned != 512<<20 || m.Home == "7" || !m.Started.Equal(began) {
		t.Errorf("%+v, on disk %+v", m, f.disk.moves[id])
	}
	if m := progress(time.Second, 2, moveRunning); m.Moved != 2 || f.disk.moves[id].Moved != 2 || m.Seconds != 1 {
		t.Errorf("%+v, on disk %+v", m, f.disk.moves[id])
	}
	progress(1500*time.Millisecond, 3, moveRunning)
	if f.disk.moves[id].Moved != 2 {
		t.Error("written twice within a second")
	}
	if m := progress(1600*time.Millisecond, 3, movePaused); m.State != movePaused || f.disk.moves[id].State != movePaused || f.told(words.MoveRests) != 1 {
		t.Errorf("%+v, told %d times", m, f.told(words.MoveRests))
	}
	progress(1700*time.Millisecond, 4, movePaused)
	progress(1800*time.Millisecond, 5, moveRunning)
	if f.told(words.MoveRests) != 1 || f.told(words.MoveGoesOn) != 1 || f.disk.moves[id].State != moveRunning {
		t.Errorf("told %d and %d times", f.told(words.MoveRests), f.told(words.MoveGoesOn))
	}
	if f.turn(Input{Progress: &Progress{ID: 999}}); len(f.s.Tasks) != 1 {
		t.Error("progress of nothing")
	}
	f.now = began.Add(3 * time.Second)
	f.release()
	if m := f.disk.moves[id]; m.State != moveDone || m.Seconds != 3 || m.Moved != 512<<20 || f.told(words.MoveEnded) != 1 {
		t.Errorf("%+v", m)
	}
	f.scan(2)
	if m := f.disk.moves[id]; m.LocalityAfter == nil || *m.LocalityAfter < 0.99 || f.told(words.LocalityChanged) != 1 {
		t.Errorf("%+v, told %d times", m, f.told(words.LocalityChanged))
	}
}

// A scan that began before a move ended has figures from before: nothing is planned on
// them, and they say nothing of locality.
func TestFiguresFromBeforeTheEndOfAMove(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0, 1)
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.MovePages }
	f.scan(1)
	scan := f.begin()
	old := f.snapshot()
	f.release()
	scan.Snapshot = old
	f.turn(Input{Scan: scan})
	f.run()
	if n := len(f.applies(plan.MovePages)); n != 1 || f.s.Moves[id].LocalityAfter != nil {
		t.Errorf("%d moves, %+v", n, f.s.Moves[id])
	}
	f.scan(1)
	if n := len(f.applies(plan.MovePages)); n != 1 || f.s.Moves[id].LocalityAfter == nil {
		t.Errorf("%d moves, %+v", n, f.s.Moves[id])
	}
}

// A daemon that was killed while pages moved is told so, and plans the rest anew.
func TestMoveThatWasInterrupted(t *testing.T) {
	for _, paused := range []bool{false, true} {
		f := newFake(t, 2, 8)
		id := f.add("a", 3, 1<<20, 0, 1)
		f.mid = func(e *Effect) {
			f.mid = nil
			if paused {
				f.turn(Input{Progress: &Progress{ID: e.ID, Move: plan.Move{Moved: 256 << 20, State: movePaused}}})
			}
			f.start()
			f.stopped[e.ID] = true
		}
		f.scan(1)
		if m := f.s.Moves[id]; m.State != moveInterrupted || f.told(words.MoveInterrupted) != 1 || f.disk.moves[id].State != moveInterrupted {
			t.Errorf("%+v", m)
		}
		f.scan(2)
		if !f.settled(id) || f.s.Moves[id].State != moveDone {
			t.Errorf("%+v", f.s.Moves[id])
		}
		f.start()
		if f.told(words.MoveInterrupted) != 1 {
			t.Error("told again of a move that ended")
		}
	}
}

// Pages that stay without an error are not tried at every scan.
func TestPagesThatStay(t *testing.T) {
	f := scattered(t)
	f.stuck = true
	f.scan(4)
	if n := len(f.applies(plan.MovePages)); n != 2 {
		t.Errorf("%d moves of two workloads within 8 s", n)
	}
	f.scan(30) // each is due again after 10 s, then 20, then 40
	if n := len(f.applies(plan.MovePages)); n > 8 {
		t.Errorf("%d moves of two workloads within 68 s", n)
	}
	if fl := f.s.flights(); len(fl) != 2 || fl[0].PutOff.Code != words.FlightPutOffRest {
		t.Errorf("%+v", fl)
	}
}

// Pinned memory is told with its bytes and not tried again for ten minutes, unless
// somebody says so.
func TestImmovableIsPutOff(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0, 1)
	f.pinned = 100 << 10
	f.scan(250)
	if n := len(f.applies(plan.MovePages)); n != 1 {
		t.Errorf("%d moves in 500 s, want 1", n)
	}
	m := f.s.Moves[id]
	if m.State != moveDone || len(m.RefusedBy) != 1 || m.RefusedBy[0].Bytes != 100<<20 || m.Refused != 100<<20 || f.told(words.MoveEndedPart) != 1 {
		t.Errorf("record %+v", m)
	}
	if f.scan(60); len(f.applies(plan.MovePages)) != 2 {
		t.Errorf("%d moves in 620 s, want 2", len(f.applies(plan.MovePages)))
	}
	home, _ := topology.ParseNodeSet(f.home(id))
	if r := f.order(id, home.Min()); r.Move == nil || r.Move.Outcome != plan.Kept { // to where it is: now
		t.Fatal(asJSON(t, r))
	}
	if f.scan(1); len(f.applies(plan.MovePages)) != 3 {
		t.Errorf("%d moves after an order, want 3", len(f.applies(plan.MovePages)))
	}
}

func TestImmovable(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		cause plan.Cause
		want  bool
	}{{0, plan.Pinned, false}, {9, plan.Pinned, false}, {10, plan.Pinned, true}, {500, plan.Busy, false}} {
		m := plan.Move{Planned: 1000, RefusedBy: []plan.Refusal{{Cause: c.cause, Bytes: c.bytes}, {Cause: plan.NodeFull, Bytes: 100}}}
		if got := immovable(&m); got != c.want {
			t.Errorf("%d of 1000 %s: %v", c.bytes, c.cause, got)
		}
	}
}

// Where a page move goes says its own step, not those around it.
func TestGoal(t *testing.T) {
	steps := []plan.Step{{Kind: plan.SetCPUs, To: "8-15"}, {Kind: plan.MovePages, To: "1"}, {Kind: plan.SetMems, To: "0-1"}}
	if got := goal(steps); got != "1" {
		t.Errorf("%q", got)
	}
	if got := goal(steps[:1]); got != "" {
		t.Errorf("%q without a move", got)
	}
}

// A page move whose workload belongs elsewhere by now is stopped, and the new one begun.
func TestMoveToAnotherHomeByNow(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0, 1)
	other := topology.NodeID(1)
	f.mid = func(e *Effect) {
		f.mid = nil
		if e.Step.To == "1" {
			other = 0
		}
		if r := f.order(id, other); r.Failed != nil {
			t.Error(r.Failed)
		}
		if !f.stopped[e.ID] {
			t.Error("its pages go on")
		}
	}
	f.scan(1)
	if f.s.Moves[id].State != moveCancelled {
		t.Errorf("%+v", f.s.Moves[id])
	}
	f.scan(3)
	if f.home(id) != topology.Nodes(other).String() || !f.settled(id) || f.s.Moves[id].State != moveDone {
		t.Errorf("home %s, %.2f there, %+v", f.home(id), f.onHome(id), f.s.Moves[id])
	}
}

// Who looks is told that a workload's memory was moved, so that it is read anew.
func TestMovedMemoryIsReadAnew(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	for _, id := range []workload.ID{"/a", "/b"} {
		if moves := f.s.Moves[id]; moves.State == "" || f.count(EffectMoved, id) != 1 {
			t.Errorf("%s: %d times told of %+v", id, f.count(EffectMoved, id), moves)
		}
	}
}

// What has waited five minutes for others of its kind goes before smaller ones (see choose).
func TestLongWaitIsAged(t *testing.T) {
	for _, tt := range []struct {
		waited time.Duration
		aged   bool
	}{{time.Minute, false}, {agedAfter, true}} {
		f := newFake(t, 2, 16)
		f.mem = 64 << 20
		for _, name := range []string{"a", "b", "c"} {
			f.add(name, 3, 4<<20, 0, 1)
		}
		f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.MovePages }
		f.scan(1)
		if len(f.s.Waits) != 1 {
			t.Fatalf("%d wait", len(f.s.Waits))
		}
		old := slices.Collect(maps.Keys(f.s.Waits))[0]
		since := f.s.Waits[old]
		f.scan(2)
		if !f.s.Waits[old].Equal(since) {
			t.Errorf("%s waits since %v, began %v", old, f.s.Waits[old], since)
		}
		f.now = since.Add(tt.waited)
		kept := f.kept
		f.kept = nil
		f.perform(kept[0]) // room for one more
		f.scan(1)
		if task := f.s.Tasks[old]; task == nil || task.Transfer == nil || task.Transfer.Aged != tt.aged {
			t.Errorf("after %v: %+v", tt.waited, task)
		}
		f.release()
		f.scan(3)
		if len(f.s.Waits) != 0 {
			t.Errorf("%v", f.s.Waits)
		}
	}
}
