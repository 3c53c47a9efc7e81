package place

import (
	"cmp"
	"math"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// impossible says why no moves at all can admit the new workload, or nothing.
// Moving a workload from node to node changes neither the memory that is free in all
// nor the CPUs, but for siblings held idle: those come free where it goes to cores
// with fewer threads.
func (r *repack) impossible() words.Reason {
	w := &r.want
	if !w.Nodes.Empty() {
		return words.Reason{}
	}
	room, mem := 0.0, topology.KiB(0)
	for i := range r.start.nodes {
		n := &r.start.nodes[i]
		if w.Class == workload.Shared {
			room += r.start.sharedRoom(n)
		} else {
			room += float64(n.Free)
		}
		mem += max(0, n.freeOf(w.HugePage))
	}
	for i := range r.movers {
		idle := float64(r.movers[i].held.Idle.Len())
		if w.Class == workload.Shared {
			idle *= r.start.overcommit()
		}
		room += idle
	}
	switch {
	case room < float64(w.vcpus)-tiny:
		word := *w
		word.SMT = workload.SMTPrefer
		return words.Because(words.MovesNoRoom, word.cpus(w.vcpus), countOf(int(room+tiny)))
	case mem < w.memory:
		return words.Because(words.MovesNoRoom, w.memoryOf(w.memory), w.have(mem))
	}
	if w.MaxNodes == 1 && r.fewest() > len(r.movers) {
		return words.Because(words.MovesNoNode, w.size())
	}
	return words.Reason{}
}

// fewest is a lower bound on the moves: for a workload that must be on one node, the
// least number of movers that must leave some node before it fits, wherever they go.
func (r *repack) fewest() int {
	if r.want.MaxNodes != 1 {
		return 1
	}
	least := len(r.movers) + 1
	for i := range r.l.nodes {
		if !r.want.eligible(r.l, i) {
			continue
		}
		s := share{i, float64(r.want.vcpus), r.want.memory}
		for k := 0; k < least; k++ {
			if r.covers(&r.want, s, k) {
				least = k
			}
		}
	}
	return least
}

// covers reports whether k movers that leave a node could make room for a share
// there: the k that hold most CPUs, and the k that hold most memory.
func (r *repack) covers(w *want, s share, k int) bool {
	if w.fits(r.l, s) {
		return true
	}
	if !w.eligible(r.l, s.node) {
		return false
	}
	oc := r.l.overcommit()
	cpus, mem := make([]float64, 0, 32), make([]topology.KiB, 0, 32)
	for j := range r.movers {
		m := &r.movers[j]
		if m.out {
			continue
		}
		if x := m.cpus[s.node]; x > 0 {
			switch {
			case w.Class == workload.Shared && m.held.Class == workload.Dedicated:
				x *= oc
			case w.Class == workload.Dedicated && m.held.Class == workload.Shared:
				x = math.Ceil(x) + 1 // what is kept for shared work, rounded up
			}
			cpus = append(cpus, x)
		}
		if x := m.memory[s.node]; x > 0 && m.held.HugePage == w.HugePage {
			mem = append(mem, x)
		}
	}
	n := &r.l.nodes[s.node]
	room := float64(n.Free)
	if w.Class == workload.Shared {
		room = r.l.sharedRoom(n)
	} else if n.shared > 0 {
		room -= float64(r.l.keep(n))
	}
	return s.vcpus <= room+largest(cpus, k)+tiny && s.memory <= w.memoryRoom(r.l, s.node)+largest(mem, k)
}

// largest is the sum of the k largest.
func largest[T float64 | topology.KiB](x []T, k int) T {
	slices.Sort(x)
	sum := T(0)
	for i := len(x) - 1; i >= 0 && k > 0; i-- {
		sum += x[i]
		k--
	}
	return sum
}

// mostDestinations bounds the ways in which a wide workload is seated.
const mostDestinations = 32

// destinations is where the search tries to seat a workload: any single node that could
// hold it; for a wide one the divisions it would get if nothing that may move
// were there, around every node and with every near partner, those that lack least first.
func (r *repack) destinations(w *want) [][]share {
	type aim struct {
		shares []share
		short  float64
		access float64
	}
	var all []aim
	offer := func(shares []share, access float64) {
		a := aim{shares: shares, access: access}
		for _, s := range shares {
			a.short += max(0, s.vcpus-float64(w.cpuRoom(r.l, s.node))) / float64(w.vcpus)
			if w.memory > 0 {
				a.short += float64(max(0, s.memory-w.memoryRoom(r.l, s.node))) / float64(w.memory)
			}
		}
		all = append(all, a)
	}
	if (!w.tooLarge && w.MinNodes <= 1) || w.MaxNodes == 1 {
		for i := range r.l.nodes {
			if w.eligible(r.l, i) && r.l.nodes[i].Given(w.Class) > 0 {
				offer([]share{{i, float64(w.vcpus), w.memory}}, 1)
			}
		}
	} else {
		r.splits(w, offer)
	}
	slices.SortStableFunc(all,
		func(a, b aim) int { return cmp.Or(cmp.Compare(a.short, b.short), cmp.Compare(a.access, b.access)) })
	var out [][]share
	for i := range all {
		if w.tooLarge && len(out) == mostDestinations {
			break
		}
		if !slices.ContainsFunc(out, func(s []share) bool { return slices.Equal(s, all[i].shares) }) {
			out = append(out, all[i].shares)
		}
	}
	return out
}

// splits offers divisions of a wide workload over the host without the movers.
func (r *repack) splits(w *want, offer func(shares []share, access float64)) {
	e := r.l.clone()
	for i := range r.movers {
		e.Remove(r.movers[i].held.Workload)
	}
	s := newSearch(e, w)
	n := len(e.nodes)
	for p := range n {
		if s.part[p] == 0 {
			continue
		}
		partners := e.order(p)[1:min(n, 1+2*beamWidth)]
		for q := -1; q < len(partners); q++ {
			for i := range s.inSet {
				s.inSet[i] = s.part[i] > 0 && (q < 0 || i == p || i == int(partners[q]))
			}
			if (w.Even && !s.divideEvenly()) || (!w.Even && (!s.divideCPUs(p) || !s.divideMemory())) {
				continue
			}
			var shares []share
			for i := range s.vcpus {
				if s.vcpus[i] > 0 || s.memory[i] > 0 {
					shares = append(shares, share{i, s.vcpus[i], s.memory[i]})
				}
			}
			access := e.accessOf(shares, w.memory)
			if access <= s.ceiling+tiny && (r.opt.Access <= 0 || access <= r.opt.Access+tiny) &&
				(w.MaxNodes == 0 || len(shares) <= w.MaxNodes) && len(shares) >= w.MinNodes &&
				!w.farFromRequired(s.l, shares) {
				offer(shares, access)
			}
		}
	}
}

// leastAccess is a lower bound on the mean access cost of a workload wherever it
// lies on this host, were nothing else there: 1 where one node could hold it, else what its
// CPUs cost filled in from the nearest around the best node, see search.farCPUs.
func (w *want) leastAccess(l *Ledger) float64 {
	if !w.tooLarge {
		return 1
	}
	least := math.Inf(1)
	for p := range l.nodes {
		left, sum := float64(w.vcpus), 0.0
		for _, t := range l.order(p) {
			i := int(t)
			room := float64(l.nodes[i].Given(w.Class))
			if w.Class == workload.Shared {
				room *= l.overcommit()
			}
			if !w.eligible(l, i) {
				room = 0
			}
			x := min(left, room)
			sum += x * l.access[i*len(l.nodes)+p]
			left -= x
		}
		if left <= tiny {
			least = min(least, sum/float64(w.vcpus))
		}
	}
	if math.IsInf(least, 1) {
		return 1
	}
	return least
}
