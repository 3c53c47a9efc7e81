package share

import (
	"testing"
	"time"
)

// TestCrumb: a small part of a CPU is not given: what it brings batch work is less than what the slowest answers of
// online work would lose.
func TestCrumb(t *testing.T) {
	for _, tt := range []struct{ budget, want float64 }{
		{4.15, 4}, {4.19, 4}, {4.25, 4.25}, // a fifth of a CPU at most
		{3.9, 3.9}, {2.05, 2}, {2.15, 2.15}, // a twentieth of the budget at most
		{1.03, 1}, {1.06, 1.06}, {0.12, 0.12}, {0, 0}, // the least that batch work may have stays
		{40.15, 40}, {40.5, 40.5},
	} {
		m := NodeState{CPUs: tt.budget}
		if got := m.may(); got != tt.want {
			t.Errorf("of a budget of %v CPUs %v are given, want %v", tt.budget, got, tt.want)
		}
	}
}

// TestCoreMore: batch work that is held to its budget by limits has the cores that this needs, and one more where the
// scheduler holds it to the budget: there it may move away from what wakes.
func TestCoreMore(t *testing.T) {
	for _, tt := range []struct {
		scheduled bool
		budget    float64
		want      int
	}{
		{false, 3.4, 4}, {true, 3.4, 6}, {false, 1.4, 2}, {true, 1.4, 4}, {true, 8, 8},
		{true, 0, 2}, // the minimum
	} {
		n := node(0, 0, 4, 2)
		n.Online = 0.75*8 - tt.budget
		w := batch("b", 50, n)
		w.Limits = true
		in := Input{At: epoch, Nodes: []Node{n}, Work: []Work{w}, Settings: on(), Scheduled: tt.scheduled}
		in.Target = 0.75
		if tt.budget == 8 { // the pool ends
			in.Target, in.Idle, in.Nodes[0].Online = 1, 1, 0
		}
		var out Outcome
		var was State
		if tt.budget == 0 {
			in.Target = 0.02
		}
		for range 90 {
			out, was = Decide(in, was)
			in.At = in.At.Add(2 * time.Second)
		}
		if got := out.Nodes[0].Given.Len(); got != tt.want {
			t.Errorf("scheduled %v: for a budget of %v CPUs batch work has %s, want %d CPUs", tt.scheduled, tt.budget,
				out.Nodes[0].Given, tt.want)
		}
	}
}
