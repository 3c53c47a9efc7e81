package place

import (
	"math"

	"github.com/homenode/homenode/core/workload"
)

// branch decides node k of the host in or out of the set, and so on down. A
// branch that cannot come below the best found is cut off.
func (s *search) branch(k int) {
	s.branches++
	if s.branches > mostBranches {
		s.gaveUp = true
		return
	}
	if s.bound() {
		return
	}
	for k < len(s.l.nodes) && s.part[k] == 0 {
		k++
	}
	if k == len(s.l.nodes) {
		s.tryAll()
		return
	}
	s.inSet[k] = true
	s.set = append(s.set, k)
	s.branch(k + 1)
	s.set = s.set[:len(s.set)-1]
	s.inSet[k] = false
	s.out[k] = true
	s.branch(k + 1)
	s.out[k] = false
}

// tryAll offers the best division over the set, with each of its nodes as the centre.
func (s *search) tryAll() {
	switch {
	case s.w.Even && len(s.set) == 1:
	case s.w.Even, s.w.Class != workload.Dedicated: // has no centre
		s.try(s.set[0])
	default:
		for _, p := range s.set {
			if s.divideCPUs(p) && s.allUsed() {
				s.try(p)
			}
		}
	}
}

// allUsed reports whether every node of the set got a vCPU. If not, the division
// is one of a smaller set.
func (s *search) allUsed() bool {
	for _, i := range s.set {
		if s.vcpus[i] == 0 {
			return false
		}
	}
	return true
}

// bound reports whether no set with the nodes in and without the nodes out can
// beat the best found, or pays.
func (s *search) bound() bool {
	w := s.w
	if w.MaxNodes > 0 && len(s.set) > w.MaxNodes {
		return true
	}
	least, fits := s.leastBeside()
	if !fits {
		return true
	}
	v := float64(w.vcpus)
	most := v * (s.ceiling - 1 + tiny)
	if len(s.top) > 0 {
		most = min(most, s.top[0].score-tiny-least)
	}
	if len(s.top) == beamWidth { // nor does it come among those listed
		most = min(most, s.top[beamWidth-1].score+tiny-least-s.leastCrowding())
	}
	return most <= 0 || s.farCPUs(most) || s.farMemory(most)
}

// leastBeside is a lower bound on all terms but distance for the sets of this
// branch, and whether the nodes not excluded hold the workload at all.
func (s *search) leastBeside() (least float64, fits bool) {
	w := s.w
	room := 0.0
	pull := -1.0
	here := 0.0
	free := 0
	for i := range s.part {
		if w.residence != nil && (!s.out[i] || s.mem[i] > 0) {
			here += w.residence[i]
		}
		if s.out[i] {
			continue
		}
		room += s.part[i]
		if w.pull != nil && s.part[i] > 0 && (pull < 0 || w.pull[i] < pull) {
			pull = w.pull[i]
		}
	}
	for _, i := range s.set {
		free += s.l.cpus.Nodes[i].Free
	}
	v := float64(w.vcpus)
	least = nodePenalty * v * float64(max(0, len(s.set)-1))
	if pull > 0 {
		least += v * pull
	}
	if w.Class == workload.Dedicated {
		least += splitHoleWeight * max(0, float64(free)-v)
	}
	if w.residence != nil {
		least += w.moving * max(0, 1-here)
	}
	return least, room >= v-tiny
}

// leastCrowding is a lower bound on what contention and load cost shared work in this branch:
// all of it where the next vCPU costs least, for each further one costs no less.
func (s *search) leastCrowding() float64 {
	if s.w.Class != workload.Shared {
		return 0
	}
	least := math.Inf(1)
	for i, cost := range s.crowd {
		if !s.out[i] && s.part[i] > 0 {
			least = min(least, cost)
		}
	}
	return float64(s.w.vcpus) * least
}

// farCPUs reports whether distance costs at least most, whichever way the CPUs
// are divided. The access cost is a mean over memory of what each node's memory
// costs the CPUs, so it is at least what the cheapest single node's memory would
// cost; for memory on node p the CPUs cost least filled in from the nearest,
// save for one vCPU on each node already in the set: one without is in none.
func (s *search) farCPUs(most float64) bool {
	n, v := len(s.l.nodes), float64(s.w.vcpus)
	s.capCPUs()
	forced := 0
	if s.w.Class == workload.Dedicated {
		forced = len(s.set)
	}
	if float64(forced) > v {
		return true
	}
	for p := range n {
		if s.w.memory > 0 && s.mem[p] == 0 {
			continue
		}
		left := v - float64(forced)
		cost := 0.0
		force := forced
		for _, t := range s.l.order(p) {
			i := int(t)
			if force > 0 && s.inSet[i] && s.part[i] > 0 {
				force--
				cost += s.l.access[i*n+p] - 1
			}
			if x := min(left, s.cap[i]); x > 0 {
				cost += x * (s.l.access[i*n+p] - 1)
				left -= x
			}
			if (left <= tiny && force == 0) || cost >= most {
				break
			}
		}
		if cost < most {
			return false
		}
	}
	return true
}

// capCPUs fills in how many vCPUs each node can get at most in this branch. A
// floating workload divides by CPUs, so the nodes already in the set bound it.
func (s *search) capCPUs() {
	if s.w.Class != workload.Shared {
		for i := range s.cap {
			s.cap[i] = s.part[i]
			if s.out[i] {
				s.cap[i] = 0
			}
		}
		return
	}
	in := 0
	for _, i := range s.set {
		in += s.l.cpus.Nodes[i].Given(s.w.Class)
	}
	for i := range s.cap {
		s.cap[i] = 0
		if s.out[i] || s.part[i] == 0 {
			continue
		}
		u := s.l.cpus.Nodes[i].Given(s.w.Class)
		total := in
		if !s.inSet[i] {
			total += u
		}
		s.cap[i] = float64(s.w.vcpus) * float64(u) / float64(max(1, total))
	}
}

// farMemory is farCPUs with CPUs and memory exchanged: for CPUs on node p the
// memory costs least filled in from the nearest.
func (s *search) farMemory(most float64) bool {
	w, n := s.w, len(s.l.nodes)
	if w.memory == 0 {
		return false
	}
	scale := float64(w.vcpus) / float64(w.memory)
	for p := range n {
		if s.out[p] || s.part[p] == 0 {
			continue
		}
		left, cost := w.memory, 0.0
		for _, t := range s.l.orderFrom(p) {
			i := int(t)
			x := min(left, s.mem[i])
			cost += scale * float64(x) * (s.l.access[p*n+i] - 1)
			if left -= x; left == 0 || cost >= most {
				break
			}
		}
		if cost < most {
			return false
		}
	}
	return true
}
