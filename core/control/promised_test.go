package control

import (
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Memory that is promised more than once is named among the problems, as long as it is.
func TestPromisedMemoryIsTold(t *testing.T) {
	f := newFake(t, 2, 8, func(s *Settings) { s.Partition, s.Policy.MemoryOvercommit = "shared", 2 })
	room := f.host().Nodes[0].Memory
	promised := func() bool {
		return slices.ContainsFunc(f.s.Snapshot.Problems, func(p workload.Problem) bool { return strings.Contains(p.Text, "of memory are promised on") })
	}
	guest := func(id workload.ID) workload.Claim {
		return workload.Claim{ID: id, Holds: []workload.Placement{{Workload: id, Class: workload.Shared, VCPUs: 1, CPUs: topology.CPUs(0, 1), Home: topology.Nodes(0),
			Memory: []workload.NodeMemory{{Node: 0, KiB: room * 2 / 3}}, Asked: room * 2 / 3}}}
	}
	f.claimedScan(guest("vm:a"))
	if promised() {
		t.Errorf("one guest: %+v", f.s.Snapshot.Problems)
	}
	f.claimedScan(guest("vm:a"), guest("vm:b"))
	if !promised() || !f.s.Halted.None() {
		t.Errorf("two guests: %+v, %v", f.s.Snapshot.Problems, f.s.Halted)
	}
	f.claimedScan(guest("vm:b"))
	if promised() {
		t.Errorf("one is gone: %+v", f.s.Snapshot.Problems)
	}
}
