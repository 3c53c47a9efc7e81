package homes

import (
	"slices"

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
		p.Home = h.NodesOf(p.CPUs)
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
	return dedicatedCPUs(h.Placements(), except)
}

// KeepClear reserves the CPUs of what claimed workloads hold where homenode itself would
// not put them: on reserved CPUs, beyond the partition, or twice. Of such a hold only its
// memory stays in the ledger.
func (h *Homes) KeepClear(claims map[workload.ID]*workload.Claim) {
	host, policy := h.Facts.Host, &h.Facts.Policy
	alone := plan.State{Host: host, Policy: *policy}
	var kept, clear topology.CPUSet
	unfit := func(p *workload.Placement) bool {
		cpus := p.CPUs.Union(p.Idle)
		if p.Class != workload.Dedicated || cpus.Empty() {
			return false
		}
		if !cpus.Intersects(kept) && len(plan.Check(alone, []workload.Placement{*p})) == 0 {
			kept = kept.Union(cpus)
			return false
		}
		clear = clear.Union(cpus)
		return true
	}
	ids := sortedKeys(claims)
	for _, id := range ids {
		if c := claims[id]; c.Fixed && c.Home != nil {
			unfit(c.Home)
		}
	}
	for _, id := range ids {
		for i := range claims[id].Holds {
			if p := &claims[id].Holds[i]; unfit(p) {
				h.memoryOnly(p.Workload)
			}
		}
	}
	clear = clear.Union(h.ExactCPUs().Minus(h.DedicatedCPUs("")))
	policy.Reserved = policy.Reserved.Union(clear.Minus(kept).Intersect(host.Online))
}

// memoryOnly takes the CPUs of a workload out of the facts.
func (h *Homes) memoryOnly(id workload.ID) {
	all := h.Facts.Placements
	k := slices.IndexFunc(all, func(p workload.Placement) bool { return p.Workload == id })
	if k < 0 {
		return
	}
	p := &all[k]
	p.VCPUs = 0
	p.CPUs = topology.CPUSet{}
	p.Pins = nil
	p.Idle = topology.CPUSet{}
	if len(p.Memory) == 0 {
		h.Facts.Placements = slices.Delete(all, k, k+1)
	}
}
