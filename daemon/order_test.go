package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// hop is a transfer of gib from one node to another.
func hop(id string, gib int, from, to topology.NodeID) *transfer {
	kib := topology.KiB(gib) << 20
	return &transfer{id: workload.ID(id), bytes: int64(kib) << 10,
		leaves: map[topology.NodeID]topology.KiB{from: kib}, arrives: map[topology.NodeID]topology.KiB{to: kib}}
}

func aged(w *transfer) *transfer { w.aged = true; return w }

func TestChooseMoves(t *testing.T) {
	flight := func(w *transfer, moved int) *move {
		return &move{transfer: w, record: plan.Move{Planned: w.bytes, Moved: int64(moved) << 30}}
	}
	many := []*transfer{}
	for n := range topology.NodeID(12) {
		many = append(many, hop(string(rune('a'+n)), 1, n, n+12))
	}
	for _, c := range []struct {
		name   string
		free   []int // GiB by node; 100 beyond
		flight []*move
		wait   []*transfer
		want   string
	}{
		{name: "one of a pair, the smaller first", wait: []*transfer{hop("a", 9, 0, 1), hop("b", 2, 0, 1)}, want: "b"},
		{name: "a big one does not hold up other pairs", flight: []*move{flight(hop("big", 90, 0, 1), 1)},
			wait: []*transfer{hop("a", 1, 0, 1), hop("b", 2, 1, 0), hop("c", 3, 2, 3)}, want: "b c"},
		{name: "what has waited long goes first", wait: []*transfer{aged(hop("a", 9, 0, 1)), hop("b", 2, 0, 1)}, want: "a"},
		{name: "what leaves a full node goes first, and what wants in waits", free: []int{100, 1, 100},
			wait: []*transfer{hop("a", 4, 0, 1), hop("b", 8, 1, 2), hop("c", 2, 2, 0)}, want: "b c"},
		{name: "it waits while that goes on", free: []int{100, 1, 100}, flight: []*move{flight(hop("b", 8, 1, 2), 4)},
			wait: []*transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "and goes when there is room", free: []int{100, 5, 100}, flight: []*move{flight(hop("b", 8, 1, 2), 4)},
			wait: []*transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "what is on its way counts", free: []int{100, 5, 100}, flight: []*move{flight(hop("b", 8, 2, 1), 4), flight(hop("d", 1, 1, 3), 0)},
			wait: []*transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "with nobody leaving it is tried all the same", free: []int{100, 1}, wait: []*transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "two full nodes that want to swap: one begins", free: []int{0, 0}, wait: []*transfer{hop("a", 4, 0, 1), hop("b", 4, 1, 0)}, want: "a"},
		{name: "a wide one into full nodes waits", free: []int{1, 1, 50, 50},
			wait: []*transfer{{id: "a", bytes: 1, leaves: map[topology.NodeID]topology.KiB{2: 8 << 20, 3: 8 << 20},
				arrives: map[topology.NodeID]topology.KiB{0: 8 << 20, 1: 8 << 20}}, hop("b", 8, 0, 2), hop("c", 8, 1, 3)}, want: "b c"},
		{name: "two that fit one by one, not both: the second waits", free: []int{100, 10, 100},
			wait: []*transfer{hop("a", 8, 0, 1), hop("b", 9, 2, 1)}, want: "a"},
		{name: "it waits for what is on its way", free: []int{100, 10, 100}, flight: []*move{flight(hop("a", 8, 0, 1), 0)},
			wait: []*transfer{hop("b", 9, 2, 1)}, want: ""},
		{name: "and is tried when that has come", free: []int{100, 2, 100}, wait: []*transfer{hop("b", 9, 2, 1)}, want: "b"},
		{name: "one that never fitted waits for it too", free: []int{100, 5, 100},
			wait: []*transfer{hop("a", 4, 0, 1), hop("b", 9, 2, 1)}, want: "a"},
		{name: "not more than a few", wait: many, want: "a b c"},
	} {
		h := &topology.Host{}
		for n := range topology.NodeID(24) {
			free := topology.KiB(100)
			if int(n) < len(c.free) {
				free = topology.KiB(c.free[n])
			}
			h.Nodes = append(h.Nodes, topology.Node{ID: n, Free: free << 20})
		}
		for _, order := range [][]*transfer{c.wait, reversed(c.wait)} {
			var got []string
			for _, w := range newTraffic(h, 0, c.flight).choose(order) {
				got = append(got, string(w.id))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	}
}

func reversed(s []*transfer) []*transfer {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// later hands page moves to the test, as the simulator does.
func (r *rig) later() *[]func() {
	var moves []func()
	r.o.Go = func(move func()) { moves = append(moves, move) }
	return &moves
}

// TestFiguresFromBeforeTheEndOfAMove: a move that ends while the next look is under
// way was planned once more, on what that look had seen before.
func TestFiguresFromBeforeTheEndOfAMove(t *testing.T) {
	m := newMachine(t, 2, 8)
	id := m.add("a", 3, 1<<20, 0, 1)
	r := newRig(t, m, Enforce)
	moves := r.later()
	r.ticks1(t)
	if len(*moves) != 1 {
		t.Fatalf("%d moves, want 1", len(*moves))
	}
	old := m.live[id].obs.Memory
	m.looked = func() { // seen before, published after the end
		(*moves)[0]()
		m.mu.Lock()
		defer m.mu.Unlock()
		now := m.live[id].obs.Memory
		m.live[id].obs.Memory = old
		m.after = func() { m.live[id].obs.Memory = now }
	}
	r.ticks1(t)
	m.looked = nil
	if len(*moves) != 1 {
		t.Error("moved again, on figures from before the end of the move")
	}
	r.ticks1(t)
	if len(*moves) != 1 {
		t.Error("moved again though all is at home")
	}
	w := r.status(t)[id]
	if w.Move == nil || w.Move.State != "done" || w.Move.LocalityAfter == nil || *w.Move.LocalityAfter < 0.99 ||
		w.Move.LocalityBefore == nil || *w.Move.LocalityBefore > 0.9 {
		t.Errorf("record %+v", w.Move)
	}
	n := 0
	for _, e := range r.history(t) {
		if e.Move != nil && e.Move.LocalityAfter != nil {
			n++
		}
	}
	if n != 1 {
		t.Errorf("locality after the move was told %d times, want once", n)
	}
}

// TestLocalityIsOfItsOwnMove: memory nodes that are set move pages too, but have no
// record, and say nothing of the move that an older one is of.
func TestLocalityIsOfItsOwnMove(t *testing.T) {
	m := newMachine(t, 2, 8)
	id := m.add("a", 3, 1<<20, 0, 1)
	r := newRig(t, m, Observe)
	r.ticks1(t)
	old := plan.Move{Workload: id, Home: "1", Planned: 1 << 30, Moved: 1 << 20, State: moveInterrupted}
	r.mu.Lock()
	r.moved[id] = old
	r.mu.Unlock()
	r.startMove(t.Context(), &transfer{id: id, steps: []plan.Step{{Kind: plan.SetMems, Workload: id, To: "0",
		Target: plan.Target{Kind: workload.InCgroup, Cgroup: string(id)}}}})
	r.wait()
	s, err := m.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.tellMoved(r.looks+1, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.moved[id]; now.LocalityAfter != nil {
		t.Errorf("the record of %q has locality %v after another transfer", now.State, *now.LocalityAfter)
	}
}

// ticks1 is one round, without waiting for moves.
func (r *rig) ticks1(t *testing.T) {
	t.Helper()
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.clock.step(2 * time.Second)
}

// TestPausedMove: a move that rests shows in status and history with the reason, and
// after a kill -9 it is known to have been under way.
func TestPausedMove(t *testing.T) {
	m := newMachine(t, 2, 8)
	id := m.add("a", 3, 1<<20, 0, 1)
	m.paused = "tasks of this machine wait for memory 40 % of the time"
	r := newRig(t, m, Enforce)
	rests := ""
	m.midMove = func(*thing) {
		w := r.status(t)[id]
		rests = w.State + ": " + w.Why
		if mv, err := r.store.Moves(); err != nil || len(mv) != 1 || mv[0].State != "paused" {
			t.Errorf("on disk: %+v %v", mv, err)
		}
		other := &rig{m: m, clock: r.clock, store: r.store} // as if killed here
		d, err := New(Options{Config: r.o.Config, BootID: "boot", Observer: m, Store: mustCopy(t, r.store), Clock: r.clock, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		other.Daemon = d
		if !other.told(t, "was interrupted") {
			t.Error("the next daemon does not know of the move")
		}
	}
	r.ticks(t, 3)
	if rests != "paused: "+m.paused {
		t.Errorf("status while it rests: %q", rests)
	}
	if !r.told(t, "rests after") || !r.told(t, m.paused) || !r.told(t, "goes on") {
		t.Errorf("history: %+v", r.history(t))
	}
	if w := r.status(t)[id]; w.State != "at home" {
		t.Errorf("in the end %q", w.State)
	}
}

func mustCopy(t *testing.T, s Store) *Memory {
	t.Helper()
	m, err := NewMemoryFrom(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestImmovableIsPutOff: pinned memory is told with its bytes and not tried at once again.
func TestImmovableIsPutOff(t *testing.T) {
	m := newMachine(t, 2, 8)
	id := m.add("a", 3, 1<<20, 0, 1)
	m.pinned = 100 << 10
	r := newRig(t, m, Enforce)
	r.ticks(t, 250)
	if m.moves != 1 {
		t.Errorf("%d moves in 500 s, want 1", m.moves)
	}
	w := r.status(t)[id]
	if w.State != "at home" || !strings.Contains(w.Why, "did not move: pinned") {
		t.Errorf("state %q: %s", w.State, w.Why)
	}
	if w.Move == nil || len(w.Move.RefusedBy) != 1 || w.Move.RefusedBy[0].Bytes != 100<<20 || w.Move.RefusedBy[0].Cause != plan.Pinned {
		t.Errorf("record %+v", w.Move)
	}
	if !r.told(t, "100 MiB stayed") {
		t.Errorf("history: %+v", r.history(t))
	}
	if r.ticks(t, 60); m.moves != 2 {
		t.Errorf("%d moves in 620 s, want 2", m.moves)
	}
	home, _ := topology.ParseNodeSet(w.Home)
	if _, err := r.order(id, home.Min()); err != nil { // told to go where it is: now
		t.Fatal(err)
	}
	if r.ticks(t, 1); m.moves != 3 {
		t.Errorf("%d moves after an order, want 3", m.moves)
	}
}

// TestGoneOrTooSmall: the history says which of the two.
func TestGoneOrTooSmall(t *testing.T) {
	m := newMachine(t, 2, 8)
	a, b := m.add("a", 3, 1<<20, 0), m.add("b", 3, 1<<20, 1)
	r := newRig(t, m, Observe)
	r.ticks(t, 1)
	delete(m.live, a)
	delete(m.live, b)
	m.shrunk = []workload.ID{b}
	r.ticks(t, 1)
	got := map[workload.ID]string{}
	for _, e := range r.history(t) {
		if e.Kind == plan.EventWorkload {
			got[e.Workload] = e.Text
		}
	}
	if got[a] != "gone" || !strings.HasPrefix(got[b], "no longer counted: it is too small") {
		t.Errorf("%q", got)
	}
}

// TestUndoOfOneOfTwoMoves: two moves are in flight, one of each workload; undo of one
// stops its own and leaves the other.
func TestUndoOfOneOfTwoMoves(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, Enforce)
	undone := make(chan error, 1)
	m.midMove = func(w *thing) {
		if w.obs.ID != "/a" {
			return
		}
		r.mu.Lock()
		ctx := r.moving["/a"].ctx
		r.mu.Unlock()
		go func() {
			_, err := r.Undo(t.Context(), api.Which{ID: "/a"})
			undone <- err
		}()
		<-ctx.Done()
	}
	r.ticks(t, 1)
	if err := <-undone; err != nil {
		t.Fatal(err)
	}
	m.midMove = nil
	r.ticks(t, 4)
	states := r.status(t)
	if states["/a"].State != "held" || states["/a"].Move == nil || states["/a"].Move.State != "cancelled" {
		t.Errorf("a: %q, move %+v", states["/a"].State, states["/a"].Move)
	}
	if states["/b"].State != "at home" || states["/b"].Move == nil || states["/b"].Move.State != "done" {
		t.Errorf("b: %q, move %+v", states["/b"].State, states["/b"].Move)
	}
	if now := m.settings(); now["/a"] != before["/a"] {
		t.Errorf("a has %s, had %s", now["/a"], before["/a"])
	}
}
