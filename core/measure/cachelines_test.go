package measure

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// TestCacheLines: placement gets what a line costs within a cache and between two of one node; pairs of two nodes
// do not count.
func TestCacheLines(t *testing.T) {
	d := &Document{
		Nodes: []Node{{ID: 0, CPUs: topology.CPUs(0, 1, 2, 3)}, {ID: 1, CPUs: topology.CPUs(4, 5)}},
		C2C: []C2C{{Unit: "ns", CPUs: []int{0, 1, 2, 4}, Median: Table{
			{Unknown, 25, 110, 300}, {25, Unknown, 110, 300}, {110, 110, Unknown, 300}, {300, 300, 300, Unknown},
		}}},
	}
	d.Host.Caches = []LastCache{{CPUs: topology.CPUs(0, 1)}, {CPUs: topology.CPUs(2, 3)}, {CPUs: topology.CPUs(4, 5)}}
	h := &topology.Host{Nodes: []topology.Node{{ID: 0}, {ID: 1}}}
	m := d.Measured(h)
	if m == nil || m.LineOwnNs != 25 || m.LineOtherNs != 110 {
		t.Fatalf("measured %+v, want 25 and 110 ns", m)
	}
	d.Host.Caches = d.Host.Caches[:1]
	if own, other := d.CacheLines(); own != 0 || other != 0 {
		t.Errorf("%v and %v ns where no pair of caches was measured", own, other)
	}
}
