package control

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// The record of a page move is on disk before the first page moves, again at most once a
// second, and with its end.
func TestRecordOfAMove(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0, 1)
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.MovePages }
	f.scan(1)
	if len(f.kept) != 1 || f.disk.moves[id].State != work.MoveRunning || f.disk.moves[id].Planned != 512<<20 || f.told(words.MoveBegins) != 1 {
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
	if m := progress(999*time.Millisecond, 1, work.MoveRunning); m.Moved != 1 || f.disk.moves[id].Moved != 0 || m.Planned != 512<<20 || m.Home == "7" || !m.Started.Equal(began) {
		t.Errorf("%+v, on disk %+v", m, f.disk.moves[id])
	}
	if m := progress(time.Second, 2, work.MoveRunning); m.Moved != 2 || f.disk.moves[id].Moved != 2 || m.Seconds != 1 {
		t.Errorf("%+v, on disk %+v", m, f.disk.moves[id])
	}
	progress(1500*time.Millisecond, 3, work.MoveRunning)
	if f.disk.moves[id].Moved != 2 {
		t.Error("written twice within a second")
	}
	if m := progress(1600*time.Millisecond, 3, work.MovePaused); m.State != work.MovePaused || f.disk.moves[id].State != work.MovePaused || f.told(words.MoveRests) != 1 {
		t.Errorf("%+v, told %d times", m, f.told(words.MoveRests))
	}
	progress(1700*time.Millisecond, 4, work.MovePaused)
	progress(1800*time.Millisecond, 5, work.MoveRunning)
	if f.told(words.MoveRests) != 1 || f.told(words.MoveGoesOn) != 1 || f.disk.moves[id].State != work.MoveRunning {
		t.Errorf("told %d and %d times", f.told(words.MoveRests), f.told(words.MoveGoesOn))
	}
	if f.turn(Input{Progress: &Progress{ID: 999}}); len(f.s.Tasks) != 1 {
		t.Error("progress of nothing")
	}
	f.now = began.Add(3 * time.Second)
	f.release()
	if m := f.disk.moves[id]; m.State != work.MoveDone || m.Seconds != 3 || m.Moved != 512<<20 || f.told(words.MoveEnded) != 1 {
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
				f.turn(Input{Progress: &Progress{ID: e.ID, Move: plan.Move{Moved: 256 << 20, State: work.MovePaused}}})
			}
			f.start()
			f.stopped[e.ID] = true
		}
		f.scan(1)
		if m := f.s.Moves[id]; m.State != work.MoveInterrupted || f.told(words.MoveInterrupted) != 1 || f.disk.moves[id].State != work.MoveInterrupted {
			t.Errorf("%+v", m)
		}
		f.scan(2)
		if !f.settled(id) || f.s.Moves[id].State != work.MoveDone {
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
	if m.State != work.MoveDone || len(m.RefusedBy) != 1 || m.RefusedBy[0].Bytes != 100<<20 || m.Refused != 100<<20 || f.told(words.MoveEndedPart) != 1 {
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
	if f.s.Moves[id].State != work.MoveCancelled {
		t.Errorf("%+v", f.s.Moves[id])
	}
	f.scan(3)
	if f.home(id) != topology.Nodes(other).String() || !f.settled(id) || f.s.Moves[id].State != work.MoveDone {
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
	}{{time.Minute, false}, {work.AgedAfter, true}} {
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
