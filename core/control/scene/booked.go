package scene

import (
	"cmp"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// between reports whether a workload is bound as before, as it will be, or in between: otherwise
// another program has bound it.
func (b Binding) between(was, to Binding) bool {
	either := b.CPUs.Equal(was.CPUs) || b.CPUs.Equal(to.CPUs)
	return either && b.Nodes.SubsetOf(was.Nodes.Union(to.Nodes))
}

// WithClaims returns a ledger with what claimed workloads hold, and with admissions. The manager of a
// workload knows where it is bound, and why: the ledger knows better only while homenode itself is
// changing that.
func (s *Scene) WithClaims(by *Basis, ledger []workload.Placement, h *topology.Host) []workload.Placement {
	before := s.Bindings
	s.Bindings = map[workload.ID]Binding{}
	if len(s.Claims) == 0 {
		return s.WithAdmissions(by, ledger)
	}
	byID := make(map[workload.ID]workload.Placement, len(ledger))
	for _, p := range ledger {
		byID[p.Workload] = p
	}
	for id, c := range s.Claims {
		if !c.Caps.Rebinds {
			continue
		}
		was, seen := before[id]
		if seen && by.Work.Changing(id) { // the next scan shows the result
			s.Bindings[id] = was
			continue
		}
		now := Binding{c.CPUs, c.Mems}
		s.Bindings[id] = now
		rebind := rebound{by: by, host: h, claim: c, now: now}
		if seen {
			rebind.was = &was
		}
		rebind.book(byID, id)
	}
	for _, c := range s.Claims { // whatever homenode plans, also of workloads that are off
		for _, p := range c.Holds {
			byID[p.Workload] = p
		}
	}
	return s.WithAdmissions(by, slices.SortedFunc(maps.Values(byID), byWorkload))
}

// rebound is a workload that its manager binds.
type rebound struct {
	by    *Basis
	host  *topology.Host
	claim *workload.Claim
	was   *Binding // at the scan before; nil when it was not seen
	now   Binding
}

// book writes the home of the workload into the ledger, or removes it.
func (r *rebound) book(byID map[workload.ID]workload.Placement, id workload.ID) {
	c := r.claim
	p, booked := byID[id]
	left := !c.Alone.None() && !c.Fixed
	switch {
	case c.Home != nil && c.Home.Class == workload.Dedicated:
		byID[id] = *c.Home
	case !c.Running || left:
		delete(byID, id)
	case c.Home == nil:
	case !booked || r.moved(&p, id):
		byID[id] = *c.Home
	}
	_, booked = byID[id]
	if !booked && r.startsElsewhere() {
		byID[id] = *c.Next.Home
	}
}

// moved reports whether another program has bound the workload elsewhere than its home is.
func (r *rebound) moved(p *workload.Placement, id workload.ID) bool {
	to := Binding{p.CPUs, MemoryNodes(r.host, p)}
	if r.was == nil {
		return !r.now.CPUs.Equal(to.CPUs) && !r.now.Nodes.Equal(to.Nodes)
	}
	return !r.by.Work.Busy(id) && !r.now.between(*r.was, to)
}

// startsElsewhere reports whether the workload has a home from homenode at its next start: it goes
// there now.
func (r *rebound) startsElsewhere() bool {
	next := r.claim.Next
	if next == nil || next.Home == nil {
		return false
	}
	return r.claim.Running && next.Ours && r.claim.Alone.None()
}

// WithAdmissions returns placements with the homes of admitted workloads that no scan has seen yet.
func (s *Scene) WithAdmissions(by *Basis, ledger []workload.Placement) []workload.Placement {
	var add []workload.Placement
	for id, a := range by.Admissions {
		switch {
		case a.Exact:
		case a.Process.PID == 0:
			add = append(add, a.Placement)
		case a.Scan >= s.Seen && place.Of(ledger, id) == nil:
			add = append(add, a.Placement)
		}
	}
	if len(add) == 0 {
		return ledger
	}
	return MergePlacements(ledger, add)
}

// MergePlacements puts changed placements over a ledger, rising by workload.
func MergePlacements(ledger, changed []workload.Placement) []workload.Placement {
	byID := make(map[workload.ID]workload.Placement, len(ledger)+len(changed))
	for _, p := range ledger {
		byID[p.Workload] = p
	}
	for _, p := range changed {
		byID[p.Workload] = p
	}
	return slices.SortedFunc(maps.Values(byID), byWorkload)
}

func byWorkload(a, b workload.Placement) int { return cmp.Compare(a.Workload, b.Workload) }

// MemoryNodes returns the nodes that a workload's memory belongs on, as its steps name them.
func MemoryNodes(h *topology.Host, p *workload.Placement) topology.NodeSet {
	var home topology.NodeSet
	for _, n := range h.Nodes {
		if p.Home.Has(n.ID) && n.Memory != 0 && h.AllowedMems.Has(n.ID) {
			home.Add(n.ID)
		}
	}
	booked := p.MemoryNodes().Intersect(home)
	if !booked.Empty() {
		return booked
	}
	return home
}

// KeepClear reserves the CPUs that claimed workloads hold where homenode itself would not place
// them: on reserved CPUs, beyond the partition, or twice. Of such a hold only the memory stays in the
// ledger. byHand is further CPUs to reserve, which a person has named.
func (s *Scene) KeepClear(st *plan.State, byHand topology.CPUSet) {
	alone := plan.State{Host: st.Host, Policy: st.Policy}
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
	ids := sortedKeys(s.Claims)
	for _, id := range ids {
		c := s.Claims[id]
		if c.Fixed && c.Home != nil {
			unfit(c.Home)
		}
	}
	for _, id := range ids {
		holds := s.Claims[id].Holds
		for i := range holds {
			if unfit(&holds[i]) {
				st.Placements = withoutCPUs(st.Placements, holds[i].Workload)
			}
		}
	}
	clear = clear.Union(byHand).Minus(kept)
	st.Policy.Reserved = st.Policy.Reserved.Union(clear.Intersect(st.Host.Online))
}

// withoutCPUs takes the CPUs of a workload out of a ledger, and the workload where it has no memory.
func withoutCPUs(ledger []workload.Placement, id workload.ID) []workload.Placement {
	k := slices.IndexFunc(ledger, func(x workload.Placement) bool { return x.Workload == id })
	if k < 0 {
		return ledger
	}
	x := &ledger[k]
	x.VCPUs, x.CPUs = 0, topology.CPUSet{}
	x.Pins, x.Idle = nil, topology.CPUSet{}
	if len(x.Memory) == 0 {
		return slices.Delete(ledger, k, k+1)
	}
	return ledger
}
