package place

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// divideCPUs spreads the vCPUs over the set. Dedicated work fills p and then the
// nodes nearest to it: the access cost of two parts x and v-x is highest at
// x = v/2, so an uneven split beats an even one. Shared work floats over all CPUs
// of its home whatever was planned, in proportion to them.
func (s *search) divideCPUs(p int) bool {
	clear(s.vcpus)
	s.runsOn = s.runsOn[:0]
	if s.w.Class == workload.Shared {
		return s.floatCPUs()
	}
	left := s.w.vcpus
	order := s.l.order(p)
	n := len(order)
	for k := 0; k < n && left > 0; {
		e := k + 1
		for e < n && s.l.access[int(order[e])*n+p] == s.l.access[int(order[k])*n+p] && order[k] != int32(p) {
			e++
		}
		left = s.fill(order[k:e], left)
		k = e
	}
	return left == 0
}

// fill puts vCPUs on nodes equally near: on the tightest that takes all that is
// left, or else on the roomiest first; of equals on the one with more memory.
// It returns what is left.
func (s *search) fill(tier []int32, left int) int {
	for left > 0 {
		best := -1
		for _, t := range tier {
			i := int(t)
			if !s.inSet[i] || s.room[i] == 0 || s.vcpus[i] > 0 {
				continue
			}
			switch {
			case best < 0, fitsBetter(int64(s.room[i]), int64(s.room[best]), int64(left)):
				best = i
			case s.room[i] != s.room[best] || s.mem[i] < s.mem[best]:
			case s.mem[i] > s.mem[best] || s.reach(i) < s.reach(best)-tiny:
				best = i
			}
		}
		if best < 0 {
			return left
		}
		x := min(left, s.room[best])
		s.vcpus[best] = float64(x)
		s.runsOn = append(s.runsOn, best)
		for k := len(s.runsOn) - 1; k > 0 && s.runsOn[k-1] > s.runsOn[k]; k-- { // of two or three
			s.runsOn[k-1], s.runsOn[k] = s.runsOn[k], s.runsOn[k-1]
		}
		left -= x
	}
	return 0
}

// reach is what accesses between node i and the vCPUs divided so far cost, both
// ways, and a little for devices that are not asked for.
func (s *search) reach(i int) float64 {
	n, sum := len(s.l.nodes), 0.0
	for _, k := range s.runsOn {
		sum += s.vcpus[k] * (s.l.access[i*n+k] + s.l.access[k*n+i])
	}
	if s.w.pull != nil {
		sum += s.w.pull[i]
	} else if s.l.nodes[i].devices > 0 {
		sum += deviceWeight
	}
	return sum
}

// floatCPUs divides vCPUs in proportion to the CPUs of the nodes in the set.
func (s *search) floatCPUs() bool {
	total := 0
	for i, in := range s.inSet {
		if in {
			total += s.l.cpus.Nodes[i].Given(s.w.Class)
		}
	}
	for i, in := range s.inSet {
		if u := s.l.cpus.Nodes[i].Given(s.w.Class); in && u > 0 {
			s.vcpus[i] = float64(s.w.vcpus) * float64(u) / float64(total)
			if s.vcpus[i] > s.part[i]+tiny {
				return false
			}
			s.runsOn = append(s.runsOn, i)
		}
	}
	return true
}

// divideEvenly gives every node of the set the same part of vCPUs and memory, the
// first ones one more where it does not come out even.
func (s *search) divideEvenly() bool {
	clear(s.vcpus)
	clear(s.memory)
	w := s.w
	k := 0
	nodes := 0
	for _, in := range s.inSet {
		if in {
			nodes++
		}
	}
	if nodes == 0 || nodes > w.vcpus {
		return false
	}
	page := max(1, w.HugePage)
	pages := w.memory / page
	for i, in := range s.inSet {
		if !in {
			continue
		}
		v, m := w.vcpus/nodes, pages/topology.KiB(nodes)
		if k < w.vcpus%nodes {
			v++
		}
		if topology.KiB(k) < pages%topology.KiB(nodes) {
			m++
		}
		if v > s.room[i] || m*page > s.mem[i] {
			return false
		}
		s.vcpus[i], s.memory[i] = float64(v), m*page
		k++
	}
	return true
}

// divideMemory lays the memory where the CPUs as divided reach it cheapest: on
// the nodes of the set, and what does not fit there on others. Of a running
// workload what lies on a node of the set stays there.
func (s *search) divideMemory() bool {
	clear(s.memory)
	s.within, s.spills = s.within[:0], false
	for i, in := range s.inSet {
		if in {
			s.within = append(s.within, i)
		}
	}
	w := s.w
	left := w.memory
	page := max(1, w.HugePage)
	upTo := func(i int, part float64) {
		x := topology.KiB(part*float64(w.memory)) / page * page
		x = max(0, min(x, s.mem[i])-s.memory[i])
		x = min(x, left)
		s.memory[i] += x
		left -= x
	}
	if w.residence != nil {
		for _, i := range s.within {
			upTo(i, w.residence[i])
		}
	}
	if w.Class == workload.Shared {
		// A floating workload takes memory where its threads happen to run: a node
		// that holds more already keeps it, the others come up to their part.
		for _, i := range s.within {
			upTo(i, s.vcpus[i]/float64(w.vcpus))
		}
	}
	if left = s.lay(s.within, false, left); left == 0 {
		return true
	}
	s.spills = true
	return s.lay(s.outside(), true, left) == 0
}

// lay puts memory on nodes, the cheapest first, and returns what is left of it.
func (s *search) lay(nodes []int, spill bool, left topology.KiB) topology.KiB {
	if left > 0 {
		s.reckon(nodes)
	}
	for left > 0 {
		j := s.cheapest(nodes, spill, left)
		if j < 0 {
			break
		}
		x := min(left, s.mem[j]-s.memory[j])
		s.memory[j] += x
		left -= x
	}
	return left
}

// outside returns the nodes that are not in the set.
func (s *search) outside() []int {
	s.beyond = s.beyond[:0]
	for i, in := range s.inSet {
		if !in {
			s.beyond = append(s.beyond, i)
		}
	}
	return s.beyond
}

// reckon fills in how far nodes are from the CPUs as divided.
func (s *search) reckon(nodes []int) {
	n := len(s.l.nodes)
	for _, j := range nodes {
		s.costs[j] = 0
	}
	for _, i := range s.runsOn { // of 64 nodes mostly two
		v, row := s.vcpus[i], s.l.access[i*n:(i+1)*n]
		for _, j := range nodes {
			s.costs[j] += v * row[j]
		}
	}
}

// cheapest is the node where a KiB of memory costs least, of those of the set or, for
// what spills over, of those outside; -1 for none. What it costs is the distance to the
// CPUs as divided and, outside, a part of the CPUs that are left there without
// memory. Of equals it is the tightest that takes all that is left, or else the
// roomiest. A node that takes spilled memory of a floating workload would take
// its threads as well, unless it has no CPUs.
func (s *search) cheapest(nodes []int, spill bool, left topology.KiB) int {
	w := s.w
	best := -1
	least := 0.0
	most := topology.KiB(0)
	for _, j := range nodes {
		room := s.mem[j] - s.memory[j]
		if room <= 0 || (spill && w.Class == workload.Shared && s.l.cpus.Nodes[j].Given(w.Class) > 0) {
			continue
		}
		if spill && w.MaxNodes > 0 && !s.mayHold(j, left) {
			continue
		}
		cost := s.costs[j]
		if spill && w.Class == workload.Dedicated && s.memory[j] == 0 {
			hole := splitHoleWeight * float64(s.l.cpus.Nodes[j].Free)
			cost += hole * float64(w.memory) / float64(min(left, room))
		}
		if best < 0 || cost < least-tiny || (cost < least+tiny && fitsBetter(int64(room), int64(most), int64(left))) {
			best = j
			least = cost
			most = room
		}
	}
	return best
}

// mayHold reports whether what is left can still be held within the nodes that
// the workload may be split over when node j is the next to take some.
func (s *search) mayHold(j int, left topology.KiB) bool {
	more := s.w.MaxNodes - 1
	var rooms []topology.KiB
	for i := range s.mem {
		switch {
		case s.vcpus[i] > 0 || s.memory[i] > 0:
			more--
		case i != j && (s.w.Class != workload.Shared || s.l.cpus.Nodes[i].Given(s.w.Class) == 0):
			rooms = append(rooms, s.mem[i])
		}
	}
	if more < 0 {
		return false
	}
	left -= s.mem[j]
	slices.Sort(rooms)
	for _, r := range slices.Backward(rooms) {
		if more == 0 || left <= 0 {
			break
		}
		left -= r
		more--
	}
	return left <= 0
}

// fitsBetter reports whether room a suits a need better than room b: the tightest
// that holds all of it, or else the largest.
func fitsBetter(a, b, need int64) bool {
	if a >= need && b >= need {
		return a < b
	}
	return a > b
}
