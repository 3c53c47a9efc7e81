package arrange

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
)

// BenchmarkArrange is one round of the daemon's deciding: 300 workloads.
func BenchmarkArrange(b *testing.B) {
	st := bigHost(8, 256)
	var subjects []*place.Subject
	for i := range 300 {
		o := seen(fmt.Sprintf("w%03d", i), float64(i%5)/2, "0-255", "0-7", topology.KiB(i%7)*128<<10, topology.KiB(i%3)*512<<10)
		subjects = append(subjects, derived(o))
	}
	st.Placements = Arrange(st, subjects, options).Placements
	b.ReportAllocs()
	for b.Loop() {
		Arrange(st, subjects, options)
	}
}

// bigHost is nodes of equal size, four to a socket, two CPUs a core, eight CPUs
// a cache, 4 GiB a CPU.
func bigHost(nodes, cpus int) plan.State {
	h := plantest.Grid(nodes, cpus/nodes/2, 2, topology.KiB(cpus/nodes)*4*gib, func(i, j int) int {
		switch {
		case i == j:
			return 10
		case i/4 == j/4:
			return 12
		}
		return 28
	})
	return plan.State{Host: h, Policy: plan.DefaultPolicy()}
}
