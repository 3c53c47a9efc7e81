package daemon

import (
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
)

// TestPageMovesRunWhereTheCallerSays: the simulator runs them in step with its clock.
func TestPageMovesRunWhereTheCallerSays(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, Enforce)
	var moves []func()
	r.o.Go = func(move func()) { moves = append(moves, move) }
	for range 3 { // one move per pair of nodes, however often it looks
		if err := r.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(moves) != 2 || m.moves != 0 {
		t.Fatalf("%d moves handed over, %d begun; want 2 and 0", len(moves), m.moves)
	}
	moves[0]()
	if m.moves != 1 {
		t.Errorf("%d moves begun, want 1", m.moves)
	}
}

// TestLeftAloneProcessIsForgotten: a registered process without a placement, as on
// a host with one node, was registered for ever; a later process with its PID
// would have been taken for it. Found by the simulator.
func TestLeftAloneProcessIsForgotten(t *testing.T) {
	m := newMachine(nil, 1, 8)
	r := newRig(t, m, Enforce)
	r.ticks(t, 1)
	process := workload.Process{PID: 77, Start: 5}
	if _, err := r.Place(t.Context(), api.Want{Name: "x", Class: workload.Shared, CPUs: 1, Process: process}); err != nil {
		t.Fatal(err)
	}
	id := m.add("x", 1, 1<<20, 0)
	thing := m.live[id]
	delete(m.live, id)
	thing.obs.ID, thing.obs.Kind, thing.obs.Processes = "pid:77", workload.InProcess, []workload.Process{process}
	m.live["pid:77"] = thing
	r.ticks(t, 3)
	if n := len(r.Registered()); n != 1 {
		t.Fatalf("%d registered while it runs, want 1", n)
	}
	thing.obs.Processes[0].Start++ // another one with its PID
	r.ticks(t, 1)
	if n := len(r.Registered()); n != 0 {
		t.Errorf("%d registered when its PID has gone to another, want 0", n)
	}
}
