package guest

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// CPUsOf is the CPUs of a node.
func CPUsOf(h *topology.Host, id topology.NodeID) topology.CPUSet {
	if n := h.Node(id); n != nil {
		return n.CPUs
	}
	return topology.CPUSet{}
}

// MainPage is the page size that most of a guest's memory has, by size; of two the larger.
func MainPage(sums map[topology.KiB]topology.KiB) (main topology.KiB) {
	for page, sum := range sums {
		if sum > sums[main] || (sum == sums[main] && page > main) {
			main = page
		}
	}
	return main
}

// OwnCPUs is CPUs that are kept for a guest beside its home, as the ledger has them; idle is
// siblings of them that stay so.
func OwnCPUs(h *topology.Host, id workload.ID, importance int, cpus, idle topology.CPUSet) *plan.Placement {
	return &plan.Placement{
		Workload: id, Class: workload.Dedicated, Importance: importance, VCPUs: cpus.Len(), Home: h.NodesOf(cpus),
		CPUs: cpus, Pins: cpus.Slice(), Idle: idle,
	}
}

// MemoryNodes is where all of the guest's memory may lie, in pages of every size.
func (h *Home) MemoryNodes() topology.NodeSet {
	if h.Cells != nil {
		return topology.Nodes(h.Cells...)
	}
	return h.Placement.MemoryNodes()
}

// Memory is all that a guest has at its home, in pages of every size.
func (h *Home) Memory() topology.KiB {
	sum := workload.Total(h.Placement.Memory)
	for i := range h.Apart {
		sum += workload.Total(h.Apart[i].Memory)
	}
	return sum
}

// SameApart reports whether two homes keep the same CPUs for single vCPUs.
func (h *Home) SameApart(o *Home) bool {
	return slices.EqualFunc(h.Apart, o.Apart, func(a, b plan.Placement) bool {
		return a.Workload == b.Workload &&
			a.CPUs.Equal(b.CPUs)
	})
}

// CPUs is all that its vCPUs may use.
func (h *Home) CPUs() topology.CPUSet {
	if h.VCPUs == nil {
		return h.Placement.CPUs
	}
	var all topology.CPUSet
	for _, set := range h.VCPUs {
		all = all.Union(set)
	}
	return all
}

// Nodes is all that its vCPUs and its memory are on.
func (h *Home) Nodes() topology.NodeSet {
	return h.Placement.Home.Union(topology.Nodes(h.Cells...))
}

// Class is what the guest is promised, as flavors have it.
func (s *Guest) Class() Class {
	if s.Composed != nil && s.Spec.Class == workload.Shared && !s.Composed.Own.Empty() {
		return MixedGuest
	}
	return Class(s.Spec.Class)
}

// VCPUs is how many it has.
func (s *Guest) VCPUs() int { return max(s.Spec.CPUs, len(s.Home.VCPUs)) }
