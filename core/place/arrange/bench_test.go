package arrange

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/place"
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
