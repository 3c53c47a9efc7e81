package place

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestKubeletPackingBug is kubernetes#137315: of two caches one has room for all of the work, on whole and half
// cores together. The kubelet with prefer-align-cpus-by-uncorecache counts cores, not CPUs, and takes CPUs of
// both caches. Siblings are 8 apart; the first cache has cores 0 to 3, the second 4 to 7.
func TestKubeletPackingBug(t *testing.T) {
	const oneNode = `
		0  0-7|8-15   64G 10 llc=4
	`
	second := topology.CPUs(4, 5, 6, 7, 12, 13, 14, 15)
	for _, c := range []struct {
		name  string
		taken []topology.CPUID
		want  int
	}{
		{"free are 3,5,7,11-15", []topology.CPUID{0, 1, 2, 4, 6, 8, 9, 10}, 5},
		{"free are 3,5,6,11,13-14", []topology.CPUID{0, 1, 2, 4, 7, 8, 9, 10, 12, 15}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := onHost(oneNode)
			st.Placements = []plan.Placement{{
				Workload: "x", Class: workload.Dedicated, Importance: 50, VCPUs: len(c.taken), Home: topology.Nodes(0), Pins: c.taken,
				CPUs: topology.CPUs(c.taken...), Memory: []workload.NodeMemory{{Node: 0, KiB: gib}},
			}}
			r := Place(st, Request{Spec: vm("a", c.want, gib)})
			if !r.Placed() {
				t.Fatalf("%s: %v", r.Decision.Outcome, r.Decision.Reasons)
			}
			if got := topology.CPUs(r.Placement.Pins...); got.Len() != c.want || !got.SubsetOf(second) {
				t.Errorf("CPUs %s; the second cache has room: %s", got, second)
			}
		})
	}
}
