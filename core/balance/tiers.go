package balance

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// placed is memory without what no home fetches: what the kernel moved to a slower tier, and what a GPU's driver put
// on its node. It stays wherever the work goes, so it is no reason to go anywhere.
func (m *model) placed(mem []workload.NodeMemory) []workload.NodeMemory {
	return workload.Outside(mem, m.stays)
}

// demotes reports whether the kernel moves cold pages of node i to a slower tier with room: it keeps such a node full,
// and a thread that finds it so does not wait long.
func (m *model) demotes(i int) bool {
	if !m.host.Tiering.Demotion {
		return false
	}
	below := m.host.Below(topology.Nodes(m.rooms[i].Node))
	for k := range m.rooms {
		n := &m.host.Nodes[k]
		if below.Has(n.ID) && !n.OfGPU() && m.free[k] > lowFree*float64(n.Memory) {
			return true
		}
	}
	return false
}
