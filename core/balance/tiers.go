package balance

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// placed is memory without what no home fetches: what the kernel moved to a slower tier, and what a GPU's driver put
// on its node. It stays wherever the work goes, so it is no reason to go anywhere.
func (m *model) placed(mem []workload.NodeMemory) []workload.NodeMemory {
	return workload.Outside(mem, m.stays)
}

// lowerOf returns for each node the nodes to which the kernel moves its cold pages, by position; nil where it moves
// none.
func lowerOf(h *topology.Host) [][]int {
	if !h.Tiering.Demotion {
		return nil
	}
	out := make([][]int, len(h.Nodes))
	gpus := h.GPUNodes()
	for i := range h.Nodes {
		below := h.Below(topology.Nodes(h.Nodes[i].ID)).Minus(gpus)
		for k := range h.Nodes {
			if below.Has(h.Nodes[k].ID) {
				out[i] = append(out[i], k)
			}
		}
	}
	return out
}

// demotes reports whether the kernel moves cold pages of node i to a slower tier with room: it keeps such a node full,
// and a thread that finds it so does not wait long.
func (m *model) demotes(i int) bool {
	if m.lower == nil {
		return false
	}
	hasRoom := func(k int) bool { return m.free[k] > lowFree*float64(m.host.Nodes[k].Memory) }
	return slices.ContainsFunc(m.lower[i], hasRoom)
}
