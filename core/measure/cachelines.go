package measure

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
)

// CacheLines returns the median latency of a cache line, ns, between cores of one last-level cache and between
// two such caches of one node; 0 and 0 where one of them was not measured.
func (d *Document) CacheLines() (own, other float64) {
	if len(d.C2C) == 0 {
		return 0, 0
	}
	var same, across []float64
	m := d.C2C[0] // one line home is enough
	for i, a := range m.CPUs {
		for k, b := range m.CPUs {
			v := m.Median.At(i, k)
			if i == k || !v.Known() || d.nodeOf(a) < 0 || d.nodeOf(a) != d.nodeOf(b) {
				continue
			}
			from, to := d.cacheOf(a), d.cacheOf(b)
			switch {
			case from < 0 || to < 0:
			case from == to:
				same = append(same, float64(v))
			default:
				across = append(across, float64(v))
			}
		}
	}
	if len(same) == 0 || len(across) == 0 {
		return 0, 0
	}
	return Median(same), Median(across)
}

// nodeOf is the position of the node of a CPU, -1 for none.
func (d *Document) nodeOf(cpu int) int {
	return slices.IndexFunc(d.Nodes, func(n Node) bool { return n.CPUs.Has(topology.CPUID(cpu)) })
}

// cacheOf is the position of the last-level cache of a CPU, -1 for none.
func (d *Document) cacheOf(cpu int) int {
	return slices.IndexFunc(d.Host.Caches, func(c LastCache) bool { return c.CPUs.Has(topology.CPUID(cpu)) })
}
