package scene

import (
	"cmp"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// between reports whether a workload is bound as before, as it will be, or in between: otherwise
// another program has bound it.
func (b Binding) between(was, to Binding) bool {
	either := b.CPUs.Equal(was.CPUs) || b.CPUs.Equal(to.CPUs)
	return either && b.Nodes.SubsetOf(was.Nodes.Union(to.Nodes))
}

// WithClaims returns a ledger with what claimed workloads hold. The manager of a workload knows where it
// is bound, and why: the ledger knows better only while homenode itself is changing that.
func (s *Scene) WithClaims(by *Basis, ledger []workload.Placement, h *topology.Host) []workload.Placement {
	before := s.Bindings
	s.Bindings = map[workload.ID]Binding{}
	if !s.sourcesBind() {
		return ledger
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
	return slices.SortedFunc(maps.Values(byID), byWorkload)
}

// sourcesBind reports whether a source binds workloads itself, or holds anything. Thousands of claims may do neither:
// then the ledger stays as it is.
func (s *Scene) sourcesBind() bool {
	for _, c := range s.Claims {
		if c.Caps.Rebinds || len(c.Holds) > 0 {
			return true
		}
	}
	return false
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

func byWorkload(a, b workload.Placement) int { return cmp.Compare(a.Workload, b.Workload) }

// MemoryNodes returns the nodes that a workload's memory belongs on, as its steps name them.
func MemoryNodes(h *topology.Host, p *workload.Placement) topology.NodeSet {
	home := h.WithMemory().Intersect(h.AllowedMems).Intersect(p.Home)
	booked := p.MemoryNodes().Intersect(home)
	if !booked.Empty() {
		return booked
	}
	return home
}
