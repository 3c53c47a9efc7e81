package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// asBefore is what shared work on one node books when its placement stays as it is, all
// that keepAsBefore needs: of thousands nearly all stay so, and those are kept in an order
// in which they do not lie in memory.
type asBefore struct {
	may       bool // its placement can stay as it is if there is room
	kept      bool // it does
	stays     bool // and without any step
	node      int32
	group     int32 // in the order of placing, see sort
	vcpus     float64
	shared    micro
	reserve   micro
	kib       topology.KiB
	bandwidth int64
}

// asBefore asks what renew asks (see keepOne), but for the room.
func (a *arrangement) asBefore(s *subject) asBefore {
	spec := &s.Spec
	old := s.old
	obs := &s.Observation
	if spec.Class != workload.Shared || old.Class != workload.Shared || !spec.Nodes.Empty() || spec.Requires() || spec.HugePage != 0 || old.HugePage != 0 ||
		spec.Importance != old.Importance || max(0, spec.Bandwidth) != old.Bandwidth || old.Home.Len() != 1 || len(old.Memory) > 1 {
		return asBefore{}
	}
	if !old.Bound && !obs.Caps.Rebinds && !obs.Mems.Empty() && !a.host.AllowedMems.SubsetOf(obs.Mems) { // see request
		return asBefore{}
	}
	if !old.Caches.Empty() { // see renewCaches
		return asBefore{}
	}
	cpus, memory := steadySize(spec, old)
	booked := workload.Total(old.Memory)
	if max(1, cpus) != old.VCPUs || max(0, memory) != old.Asked || booked != min(old.Asked, unlimited) {
		return asBefore{}
	}
	home := old.Home.Min()
	node := a.ledger.index(home)
	if node < 0 || (len(old.Memory) == 1 && (old.Memory[0].Node != home || booked < 0)) ||
		a.ledger.nodes[node].given(workload.Shared) == 0 {
		return asBefore{}
	}
	v := micro(float64(old.VCPUs) * 1e6)
	return asBefore{
		may: true, stays: old.CPUs.Equal(obs.CPUs) && len(a.steps(s, old)) == 0, node: int32(node), vcpus: float64(old.VCPUs), kib: booked, bandwidth: old.Bandwidth,
		shared: v, reserve: v * micro(Reserve(old.Importance)) / 100,
	}
}

// keepAsBefore keeps a placement as it is if there is room.
func (a *arrangement) keepAsBefore(s *subject) bool {
	l, b := a.ledger, &s.asBefore
	n := &l.nodes[b.node]
	if !b.may || !a.loose || n.open() == 0 || b.vcpus > l.mostShared(n)+tiny || b.kib > max(0, n.memoryFree) {
		return false
	}
	n.memoryFree -= b.kib
	n.bandwidth += b.bandwidth
	n.shared += b.shared
	n.reserve += b.reserve
	b.kept = true
	return true
}

// keepGroup keeps those that stay as they are and stand together in the order of placing. As
// long as there is room for all of them none is refused, whichever comes first.
func (a *arrangement) keepGroup(group []*subject) {
	if !a.fits(group) {
		slices.SortFunc(group, func(x, y *subject) int { return a.key(a.at(x)).compare(a.key(a.at(y))) })
	}
	for _, s := range group {
		if !a.keepAsBefore(s) {
			a.keepOne(s)
		}
	}
}

// at is the position of a subject.
func (a *arrangement) at(s *subject) int {
	i, _ := slices.BinarySearchFunc(a.subjects, s.Observation.ID, func(x subject, id workload.ID) int { return cmp.Compare(x.Observation.ID, id) })
	return i
}

// fits reports whether there is room for all of a group.
func (a *arrangement) fits(group []*subject) bool {
	if len(group) < 2 {
		return true
	}
	l := a.ledger
	kib := make([]topology.KiB, len(l.nodes))
	for _, s := range group {
		b := &s.asBefore
		n := &l.nodes[b.node]
		kib[b.node] += b.kib
		if n.open() == 0 || b.vcpus > l.mostShared(n) || kib[b.node] > max(0, n.memoryFree) {
			return false
		}
	}
	return a.loose
}

// decideAsBefore writes the decisions on subjects that were kept.
func (a *arrangement) decideAsBefore() {
	for i := range a.subjects {
		if s := &a.subjects[i]; s.asBefore.kept {
			*s.decision = plan.Decision{Workload: s.old.Workload, Outcome: plan.Kept, Home: s.old.Home, Reasons: a.homeAt(int(s.asBefore.node)).kept}
		}
	}
}

// holdAsBefore has the ledger hold those that were kept as they are.
func (a *arrangement) holdAsBefore() {
	a.ledger.arena.holdings = make([]holding, len(a.subjects))
	for i := range a.subjects {
		if s := &a.subjects[i]; s.asBefore.kept {
			s.holding = a.ledger.newHolding(s.old)
		}
	}
}

// allAsBefore reports whether the placements are what they were, seen without the list of
// the ledger: all were kept, and float over the same CPUs.
func (a *arrangement) allAsBefore() bool {
	if !a.loose || a.was == nil || len(a.absent) > 0 {
		return false
	}
	cpus := make([]topology.CPUSet, len(a.ledger.nodes))
	known := make([]bool, len(cpus))
	kept := 0
	for i := range a.subjects {
		s := &a.subjects[i]
		if !s.asBefore.kept {
			if s.holding != nil {
				return false
			}
			continue
		}
		n := s.asBefore.node
		if !known[n] {
			known[n], cpus[n] = true, a.ledger.floating([]int{int(n)}, workload.Shared)
		}
		if s.old != &a.was[kept] || !cpus[n].Equal(s.old.CPUs) {
			return false
		}
		kept++
	}
	return kept == len(a.was)
}
