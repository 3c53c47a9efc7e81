package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// weightNode is a node by its number.
func weightNode(n int) topology.NodeID { return topology.NodeID(n) }

// TestInterleaveWeights: the kernel's weights follow the bandwidth of the nodes; switched off and undone, the kernel has
// its own again, and its choice is restored last.
func TestInterleaveWeights(t *testing.T) {
	f := newFake(t, 2, 8, func(s *Settings) { s.Weights = true })
	f.slow = 16 * gib
	f.bandwidth = [][]float64{{200, 90, 50}, {90, 200, 30}, {0, 0, 0}}
	f.set(plan.HostFile, hostprep.InterleaveAuto, "true")
	for n := range 3 {
		f.set(plan.HostFile, hostprep.InterleaveWeight(weightNode(n)), "7")
	}
	f.add("web", 2, gib, 0)
	before := f.all()
	f.scan(4)
	for n, want := range []string{"4", "4", "1"} {
		if got := f.get(plan.HostFile, hostprep.InterleaveWeight(weightNode(n))); got != want {
			t.Errorf("node %d has weight %s, want %s", n, got, want)
		}
	}
	if got := f.get(plan.HostFile, hostprep.InterleaveAuto); got != "false" {
		t.Errorf("auto is %s", got)
	}
	f.start(func(s *Settings) { s.Weights = false })
	f.scan(4)
	after := f.all()
	for key, was := range before {
		if key != "cpuset.cpus /web" && after[key] != was {
			t.Errorf("switched off, %s is %s, was %s", key, after[key], was)
		}
	}
	f.start(func(s *Settings) { s.Weights = true })
	f.scan(4)
	f.undo("")
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("undo left:\n%s", diff)
	}
	last := ""
	for i := range f.done {
		for _, e := range f.done[i].Entries {
			if f.done[i].Kind == EffectRestore && e.Kind == plan.HostFile {
				last = e.Path
			}
		}
	}
	if last != hostprep.InterleaveAuto {
		t.Errorf("%s is restored last", last)
	}
}
