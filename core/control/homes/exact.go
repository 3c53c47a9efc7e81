package homes

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// ExactPlacement returns what was named in in.Exact as a placement: its home is the nodes of
// the memory, or the nodes of h that have the CPUs.
func ExactPlacement(h *topology.Host, spec *workload.Spec, in *PlaceRequest) workload.Placement {
	p := workload.Placement{
		Workload:   spec.ID,
		Class:      spec.Class,
		Importance: spec.Importance,
		VCPUs:      spec.CPUs,
		Home:       in.Exact.Nodes.Clone(),
		CPUs:       in.Exact.CPUs.Clone(),
		Asked:      max(0, spec.Memory),
		Start:      in.Process.Start,
	}
	if p.Home.Empty() {
		for i := range h.Nodes {
			if h.Nodes[i].CPUs.Intersects(p.CPUs) {
				p.Home.Add(h.Nodes[i].ID)
			}
		}
	}
	for n := range p.Home.All() {
		if part := p.Asked / topology.KiB(p.Home.Len()); part > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: n, KiB: part})
		}
	}
	if p.Class == workload.Dedicated {
		p.Pins = p.CPUs.Slice()
	}
	return p
}

// ExactCPUs returns the CPUs that a person named for dedicated work.
func (h *Homes) ExactCPUs() topology.CPUSet {
	var cpus topology.CPUSet
	for _, a := range h.Admissions {
		if a.Exact && a.Spec.Class == workload.Dedicated {
			cpus = cpus.Union(a.Placement.CPUs)
		}
	}
	return cpus
}

// DedicatedCPUs returns the CPUs that the ledger has for one workload each, except for those
// of one workload.
func (h *Homes) DedicatedCPUs(except workload.ID) topology.CPUSet {
	var cpus topology.CPUSet
	for _, p := range h.Placements() {
		if p.Class == workload.Dedicated && p.Workload != except {
			cpus = cpus.Union(p.CPUs).Union(p.Idle)
		}
	}
	return cpus
}

// KeepClear reserves CPUs that homenode itself would not use. clear does so for claimed
// workloads, and for the CPUs that a person named.
func (h *Homes) KeepClear(clear func(facts *plan.State, byHand topology.CPUSet)) {
	clear(&h.Facts, h.ExactCPUs().Minus(h.DedicatedCPUs("")))
}
