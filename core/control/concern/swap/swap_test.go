package swap

import (
	"testing"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestNeverSwaps: dedicated work with a cgroup of its own does not swap, where the configuration says so.
func TestNeverSwaps(t *testing.T) {
	const never = "memory.swap.max /x of /x: set-cgroup max > 0 never-swaps"
	for _, c := range []struct {
		name  string
		never bool
		class workload.Class
		facts string
		want  string
	}{
		{"dedicated", true, workload.Dedicated, "", never},
		{"not configured", false, workload.Dedicated, "", ""},
		{"shared", true, workload.Shared, "", ""},
		{"held", true, workload.Dedicated, "held /x", ""},
		{"no cgroup of its own", true, workload.Dedicated, "managed /x", ""},
	} {
		sc, loop := concerntest.On(plantest.Draw("0 0-3 16G 10\n"))
		home := &workload.Placement{Class: c.class}
		concerntest.Add(sc, place.Subject{Observation: concerntest.Service("/x", topology.CPUs(0))}, home)
		loop.Is(c.facts)
		concerntest.Expect(t, c.name, concerntest.Lines(Concern{Never: c.never}.Decide(sc).Settings), c.want)
	}
}

// TestOwns: memory.swap.max alone.
func TestOwns(t *testing.T) {
	for kind, want := range map[plan.SettingKind]bool{plan.SwapMax: true, plan.MemoryHigh: false} {
		if got := (Concern{}).Owns(&plan.Entry{Kind: kind}); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
	if (Concern{}).Ended(nil, nil, nil) {
		t.Error("a step changes its desires")
	}
}
