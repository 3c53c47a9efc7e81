package work

import (
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// hop is a transfer of gib from one node to another.
func hop(id string, gib int, from, to topology.NodeID) *Transfer {
	kib := topology.KiB(gib) << 20
	return &Transfer{ID: workload.ID(id), Bytes: int64(kib) << 10,
		Leaves: map[topology.NodeID]topology.KiB{from: kib}, Arrives: map[topology.NodeID]topology.KiB{to: kib}}
}

func aged(w *Transfer) *Transfer { w.Aged = true; return w }

func TestChooseTransfers(t *testing.T) {
	flight := func(w *Transfer, moved int) *Task {
		return &Task{Transfer: w, Move: &plan.Move{Planned: w.Bytes, Moved: int64(moved) << 30}}
	}
	many := []*Transfer{}
	for n := range topology.NodeID(12) {
		many = append(many, hop(string(rune('a'+n)), 1, n, n+12))
	}
	for _, c := range []struct {
		name   string
		free   []int // GiB by node; 100 beyond
		flight []*Task
		wait   []*Transfer
		want   string
	}{
		{name: "one of a pair, the smaller first", wait: []*Transfer{hop("a", 9, 0, 1), hop("b", 2, 0, 1)}, want: "b"},
		{name: "a big one does not hold up other pairs", flight: []*Task{flight(hop("big", 90, 0, 1), 1)},
			wait: []*Transfer{hop("a", 1, 0, 1), hop("b", 2, 1, 0), hop("c", 3, 2, 3)}, want: "b c"},
		{name: "what has waited long goes first", wait: []*Transfer{aged(hop("a", 9, 0, 1)), hop("b", 2, 0, 1)}, want: "a"},
		{name: "what leaves a full node goes first, and what wants in waits", free: []int{100, 1, 100},
			wait: []*Transfer{hop("a", 4, 0, 1), hop("b", 8, 1, 2), hop("c", 2, 2, 0)}, want: "b c"},
		{name: "it waits while that goes on", free: []int{100, 1, 100}, flight: []*Task{flight(hop("b", 8, 1, 2), 4)},
			wait: []*Transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "and goes when there is room", free: []int{100, 5, 100}, flight: []*Task{flight(hop("b", 8, 1, 2), 4)},
			wait: []*Transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "what is on its way counts", free: []int{100, 5, 100}, flight: []*Task{flight(hop("b", 8, 2, 1), 4), flight(hop("d", 1, 1, 3), 0)},
			wait: []*Transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "of a move only what is still to come", free: []int{100, 9, 100}, flight: []*Task{flight(hop("b", 8, 2, 1), 6)},
			wait: []*Transfer{hop("a", 6, 0, 1)}, want: "a"},
		{name: "one that brings more than was planned gives no room", free: []int{100, 3, 100}, flight: []*Task{flight(hop("b", 8, 2, 1), 12)},
			wait: []*Transfer{hop("a", 4, 0, 1)}, want: ""},
		{name: "with nobody leaving it is tried all the same", free: []int{100, 1}, wait: []*Transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "two full nodes that want to swap: one begins", free: []int{0, 0}, wait: []*Transfer{hop("a", 4, 0, 1), hop("b", 4, 1, 0)}, want: "a"},
		{name: "a wide one into full nodes waits", free: []int{1, 1, 50, 50},
			wait: []*Transfer{{ID: "a", Bytes: 1, Leaves: map[topology.NodeID]topology.KiB{2: 8 << 20, 3: 8 << 20},
				Arrives: map[topology.NodeID]topology.KiB{0: 8 << 20, 1: 8 << 20}}, hop("b", 8, 0, 2), hop("c", 8, 1, 3)}, want: "b c"},
		{name: "two that fit one by one, not both: the second waits", free: []int{100, 10, 100},
			wait: []*Transfer{hop("a", 8, 0, 1), hop("b", 9, 2, 1)}, want: "a"},
		{name: "it waits for what is on its way", free: []int{100, 10, 100}, flight: []*Task{flight(hop("a", 8, 0, 1), 0)},
			wait: []*Transfer{hop("b", 9, 2, 1)}, want: ""},
		{name: "and is tried when that has come", free: []int{100, 2, 100}, wait: []*Transfer{hop("b", 9, 2, 1)}, want: "b"},
		{name: "one that never fitted waits for it too", free: []int{100, 5, 100},
			wait: []*Transfer{hop("a", 4, 0, 1), hop("b", 9, 2, 1)}, want: "a"},
		{name: "what has room goes before the smaller that has none", free: []int{100, 3}, flight: []*Task{flight(hop("x", 1, 8, 9), 0), flight(hop("y", 1, 10, 11), 0)},
			wait: []*Transfer{hop("a", 4, 0, 1), hop("b", 9, 2, 3)}, want: "b"},
		{name: "two that fit together", free: []int{100, 10, 100}, wait: []*Transfer{hop("a", 4, 0, 1), hop("b", 5, 2, 1)}, want: "a b"},
		{name: "not more than a few", wait: many, want: "a b c"},
		{name: "what exactly fits", free: []int{100, 4}, flight: []*Task{flight(hop("d", 1, 1, 3), 0)}, wait: []*Transfer{hop("a", 4, 0, 1)}, want: "a"},
		{name: "of equals the first by name", wait: []*Transfer{hop("b", 2, 0, 1), hop("a", 2, 0, 1)}, want: "a"},
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
		for _, order := range [][]*Transfer{c.wait, backwards} {
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
	if got := newTraffic(h, 2<<20, busy).choose([]*Transfer{hop("a", 4, 0, 1)}); len(got) != 0 {
		t.Error("memory that is reserved is filled")
	}
	if got := newTraffic(h, 0, busy).choose([]*Transfer{hop("a", 400, 0, 2)}); len(got) != 1 {
		t.Error("a node of unknown memory is taken to be full")
	}
	if got := newTraffic(nil, 0, nil).choose([]*Transfer{hop("a", 4, 0, 1)}); len(got) != 1 {
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
