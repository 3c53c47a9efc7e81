package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const (
	// exactNodes is the largest host that is searched exactly: 2^16 node sets, of
	// which the bound leaves few. Larger ones are searched by beam.
	exactNodes = 16

	// beamWidth is how many candidates a beam improves further, and how many the
	// report lists.
	beamWidth = 8

	// mostBranches bounds the exact search when the bound prunes badly. It is some
	// milliseconds; what is found until then stands, and the report says so.
	mostBranches = 1 << 14

	// nodePenalty is per vCPU and further node: of sets equally near the smaller,
	// for guests are shaped by it and every node is one more thing to go wrong.
	nodePenalty = 0.005
)

// search is one search for a node set. Its slices are by node index.
type search struct {
	l    *Ledger
	w    *want
	room []int          // whole vCPUs that fit
	part []float64      // vCPUs that fit, of floating work also in parts
	mem  []topology.KiB // memory that fits
	cap  []float64      // bound on vCPUs, see bound

	vcpus  []float64      // the division being tried
	memory []topology.KiB //
	set    []int          // nodes of the set being tried, rising
	shares []share
	inSet  []bool
	out    []bool // excluded by the branch being explored

	top      []candidate // best first, at most beamWidth
	ceiling  float64     // access cost above which a set does not pay
	declined candidate   // the best of those that do not pay; no shares when there is none
	branches int
	gaveUp   bool // mostBranches was reached: the best may not be the optimum
}

func (l *Ledger) newSearch(w *want) *search {
	n := len(l.nodes)
	s := &l.scratch
	if len(s.room) != n {
		ints := make([]int, 2*n)
		sizes := make([]topology.KiB, 2*n)
		floats := make([]float64, 3*n)
		bools := make([]bool, 2*n)
		*s = search{
			room: ints[:n:n], set: ints[n:n], mem: sizes[:n:n], memory: sizes[n:],
			top: make([]candidate, 0, beamWidth), cap: floats[:n:n], vcpus: floats[n : 2*n : 2*n], part: floats[2*n:], inSet: bools[:n:n], out: bools[n:],
		}
	}
	s.l, s.w = l, w
	s.top, s.set = s.top[:0], s.set[:0]
	s.branches, s.gaveUp = 0, false
	s.ceiling = l.ceiling(w)
	s.declined.shares = s.declined.shares[:0]
	for i := range n {
		s.room[i], s.mem[i] = l.cpuRoom(w, i), l.memoryRoom(w, i)
		s.part[i] = float64(s.room[i])
		if w.Class == workload.Shared && l.eligible(w, i) {
			s.part[i] = l.sharedRoom(&l.nodes[i])
		}
		s.inSet[i], s.out[i] = false, false
	}
	return s
}

// run fills top with the best candidates: single nodes where one takes the
// whole workload without contention, and otherwise sets of any size.
func (s *search) run() {
	s.singles()
	if s.w.MaxNodes == 1 || len(s.l.nodes) < 2 {
		return
	}
	if len(s.top) > 0 && (s.w.Class == workload.Dedicated || s.top[0].terms[contention] <= tiny) {
		return
	}
	if !s.enough() {
		return
	}
	if s.w.Even {
		s.growEvenly()
	} else {
		s.grow()
	}
	if len(s.l.nodes) <= exactNodes {
		s.branch(0)
	} else {
		s.improve()
	}
}

func (s *search) singles() {
	w := s.w
	for i := range s.l.nodes {
		if s.room[i] >= w.vcpus && s.mem[i] >= w.memory {
			s.offerSingle(i)
		}
	}
}

func (s *search) offerSingle(i int) {
	s.shares = append(s.shares[:0], share{i, float64(s.w.vcpus), s.w.memory})
	c := candidate{shares: s.shares}
	s.l.weigh(s.w, &c)
	s.offer(&c)
}

// enough reports whether all nodes together hold the workload.
func (s *search) enough() bool {
	room, mem := 0.0, topology.KiB(0)
	for i := range s.room {
		room += s.part[i]
		mem += min(s.mem[i], s.w.memory)
	}
	return room >= float64(s.w.vcpus)-tiny && mem >= s.w.memory
}

// offer puts a candidate among the best, unless its node set is there already
// with a better division. The candidate's shares are copied.
func (s *search) offer(c *candidate) {
	n := len(s.top)
	if n == beamWidth && c.score >= s.top[n-1].score {
		return
	}
	at := slices.IndexFunc(s.top, func(t candidate) bool { return sameNodes(t.shares, c.shares) })
	switch {
	case at >= 0 && s.top[at].score <= c.score:
		return
	case at >= 0:
	case n == beamWidth:
		at = n - 1
	default:
		at = n
		s.top = s.top[:n+1]
	}
	kept := append(s.top[at].shares[:0], c.shares...)
	for ; at > 0 && c.score < s.top[at-1].score; at-- {
		s.top[at] = s.top[at-1]
	}
	s.top[at] = *c
	s.top[at].shares = kept
}

func sameNodes(a, b []share) bool {
	return slices.EqualFunc(a, b, func(x, y share) bool { return x.node == y.node })
}

// order is the nodes from nearest to farthest for memory on node p: whose CPUs
// reach it cheapest.
func (l *Ledger) order(p int) []int32 {
	n := len(l.nodes)
	if l.nearest == nil {
		l.nearest = sortedRows(n, func(p, i int) float64 { return l.access[i*n+p] })
	}
	return l.nearest[p*n : (p+1)*n]
}

// orderFrom is the nodes from nearest to farthest for CPUs of node p: whose
// memory they reach cheapest.
func (l *Ledger) orderFrom(p int) []int32 {
	n := len(l.nodes)
	if l.nearestFrom == nil {
		l.nearestFrom = sortedRows(n, func(p, i int) float64 { return l.access[p*n+i] })
	}
	return l.nearestFrom[p*n : (p+1)*n]
}

// sortedRows is, for every node, all nodes by rising cost. A node is nearest to
// itself, whatever a table says of others.
func sortedRows(n int, cost func(p, i int) float64) []int32 {
	rows := make([]int32, n*n)
	for p := range n {
		row := rows[p*n : (p+1)*n]
		row[0] = int32(p)
		for i, k := 0, 1; i < n; i++ {
			if i != p {
				row[k] = int32(i)
				k++
			}
		}
		slices.SortStableFunc(row[1:], func(a, b int32) int { return cmp.Compare(cost(p, int(a)), cost(p, int(b))) })
	}
	return rows
}

// grow offers, for each node, the set that results when the workload is filled
// in around it.
func (s *search) grow() {
	for i := range s.inSet {
		s.inSet[i] = s.part[i] > 0
	}
	for p := range s.l.nodes {
		if s.part[p] > 0 || s.mem[p] > 0 {
			s.try(p)
		}
	}
	clear(s.inSet)
}

// try divides the workload over the nodes in the set with p as the centre, and
// offers the nodes that got a part.
func (s *search) try(p int) {
	if s.w.Even {
		if !s.divideEvenly() {
			return
		}
	} else if !s.divideCPUs(p) || !s.divideMemory() {
		return
	}
	s.shares = s.shares[:0]
	for i := range s.vcpus {
		if s.vcpus[i] > 0 || s.memory[i] > 0 {
			s.shares = append(s.shares, share{i, s.vcpus[i], s.memory[i]})
		}
	}
	if s.w.MaxNodes > 0 && len(s.shares) > s.w.MaxNodes {
		return
	}
	c := candidate{shares: s.shares}
	s.l.weigh(s.w, &c)
	c.terms[distance] += nodePenalty * float64(s.w.vcpus) * float64(len(s.shares)-1)
	c.score = c.terms.sum()
	if c.access > s.ceiling+tiny {
		s.decline(&c)
		return
	}
	s.offer(&c)
}

// decline keeps the best candidate that does not pay, for the report.
func (s *search) decline(c *candidate) {
	if d := &s.declined; len(d.shares) == 0 || c.score < d.score {
		kept := append(d.shares[:0], c.shares...)
		*d = *c
		d.shares = kept
	}
}

// divideCPUs spreads the vCPUs over the set. Dedicated work fills p and then the
// nodes nearest to it: the access cost of two parts x and v-x is highest at
// x = v/2, so an uneven split beats an even one. Shared work floats over all CPUs
// of its home whatever was planned, in proportion to them.
func (s *search) divideCPUs(p int) bool {
	clear(s.vcpus)
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

// divideEvenly gives every node of the set the same part of vCPUs and memory, the
// first ones one more where it does not come out even.
func (s *search) divideEvenly() bool {
	clear(s.vcpus)
	clear(s.memory)
	w, k, nodes := s.w, 0, 0
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

// growEvenly offers, for each node and number of nodes, the nearest that can
// hold an even part.
func (s *search) growEvenly() {
	for p := range s.l.nodes {
		for nodes := 2; nodes <= min(len(s.l.nodes), s.w.vcpus); nodes++ {
			clear(s.inSet)
			v, m := (s.w.vcpus+nodes-1)/nodes, (s.w.memory+topology.KiB(nodes)-1)/topology.KiB(nodes)
			left := nodes
			for _, t := range s.l.order(p) {
				if i := int(t); left > 0 && s.room[i] >= v && s.mem[i] >= m {
					s.inSet[i] = true
					left--
				}
			}
			if left == 0 {
				s.try(p)
			}
		}
	}
	clear(s.inSet)
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
		left -= x
	}
	return 0
}

// reach is what accesses between node i and the vCPUs divided so far cost, both
// ways, and a little for devices that are not asked for.
func (s *search) reach(i int) float64 {
	n, sum := len(s.l.nodes), 0.0
	for k, v := range s.vcpus {
		if v > 0 {
			sum += v * (s.l.access[i*n+k] + s.l.access[k*n+i])
		}
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
			total += s.l.nodes[i].given(s.w.Class)
		}
	}
	if total == 0 {
		return false
	}
	for i, in := range s.inSet {
		if u := s.l.nodes[i].given(s.w.Class); in && u > 0 {
			s.vcpus[i] = float64(s.w.vcpus) * float64(u) / float64(total)
			if s.vcpus[i] > s.part[i]+tiny {
				return false
			}
		}
	}
	return true
}

// divideMemory lays the memory where the CPUs as divided reach it cheapest: on
// the nodes of the set, and what does not fit there on others. Of a running
// workload what lies on a node of the set stays there.
func (s *search) divideMemory() bool {
	clear(s.memory)
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
	for i, in := range s.inSet {
		if in && w.lies != nil {
			upTo(i, w.lies[i])
		}
	}
	for i, in := range s.inSet {
		// A floating workload takes memory where its threads happen to run: a node
		// that holds more already keeps it, the others come up to their part.
		if in && w.Class == workload.Shared {
			upTo(i, s.vcpus[i]/float64(w.vcpus))
		}
	}
	for _, spill := range []bool{false, true} {
		for left > 0 {
			j := s.cheapest(spill, left)
			if j < 0 {
				break
			}
			x := min(left, s.mem[j]-s.memory[j])
			s.memory[j] += x
			left -= x
		}
	}
	return left == 0
}

// cheapest is the node where a KiB of memory costs least, inside the set or, for
// what spills over, outside; -1 for none. What it costs is the distance to the
// CPUs as divided and, outside, a part of the CPUs that are left there without
// memory. Of equals it is the tightest that takes all that is left, or else the
// roomiest. A node that takes spilled memory of a floating workload would take
// its threads as well, unless it has no CPUs.
func (s *search) cheapest(spill bool, left topology.KiB) int {
	w, n := s.w, len(s.l.nodes)
	best, least, most := -1, 0.0, topology.KiB(0)
	for j, in := range s.inSet {
		room := s.mem[j] - s.memory[j]
		if in == spill || room <= 0 || spill && w.Class == workload.Shared && s.l.nodes[j].given(w.Class) > 0 {
			continue
		}
		if spill && w.MaxNodes > 0 && !s.mayHold(j, left) {
			continue
		}
		cost := 0.0
		for i, v := range s.vcpus {
			if v > 0 {
				cost += v * s.l.access[i*n+j]
			}
		}
		if spill && w.Class == workload.Dedicated && s.memory[j] == 0 {
			hole := splitHoleWeight * float64(s.l.nodes[j].free)
			cost += hole * float64(w.memory) / float64(min(left, room))
		}
		if best < 0 || cost < least-tiny || cost < least+tiny && fitsBetter(int64(room), int64(most), int64(left)) {
			best, least, most = j, cost, room
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
		case i != j && (s.w.Class != workload.Shared || s.l.nodes[i].given(s.w.Class) == 0):
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
	switch {
	case a >= need && b >= need:
		return a < b
	case a >= need || b >= need:
		return a >= need
	}
	return a > b
}

// branch decides node k of the host in or out of the set, and so on down. A
// branch that cannot come below the best found is cut off.
func (s *search) branch(k int) {
	if s.branches++; s.branches > mostBranches {
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
	if s.w.Even {
		if len(s.set) > 1 {
			s.try(s.set[0])
		}
		return
	}
	for _, p := range s.set {
		if s.w.Class != workload.Dedicated || s.divideCPUs(p) && s.allUsed() {
			s.try(p)
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
	return most <= 0 || s.farCPUs(most) || s.farMemory(most)
}

// leastBeside is a lower bound on all terms but distance for the sets of this
// branch, and whether the nodes not excluded hold the workload at all.
func (s *search) leastBeside() (least float64, fits bool) {
	w := s.w
	room, pull, here, free := 0.0, -1.0, 0.0, 0
	for i := range s.part {
		if w.lies != nil && (!s.out[i] || s.mem[i] > 0) {
			here += w.lies[i]
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
		free += s.l.nodes[i].free
	}
	v := float64(w.vcpus)
	least = nodePenalty * v * float64(max(0, len(s.set)-1))
	if pull > 0 {
		least += v * pull
	}
	if w.Class == workload.Dedicated {
		least += splitHoleWeight * max(0, float64(free)-v)
	}
	if w.lies != nil {
		least += moveWeight * v * max(0, 1-here)
	}
	return least, room >= v-tiny
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
		left, cost, force := v-float64(forced), 0.0, forced
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
			if left <= tiny && force == 0 || cost >= most {
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
		in += s.l.nodes[i].given(s.w.Class)
	}
	for i := range s.cap {
		s.cap[i] = 0
		if s.out[i] || s.part[i] == 0 {
			continue
		}
		u := s.l.nodes[i].given(s.w.Class)
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

// improve tries sets one step from the best found: one node exchanged, dropped
// or added, until nothing gets better.
func (s *search) improve() {
	for round := 0; round < 4; round++ {
		before := 0.0
		if len(s.top) > 0 {
			before = s.top[0].score
		}
		var start [beamWidth][]int
		for k, c := range s.top {
			for _, sh := range c.shares {
				if sh.vcpus > 0 {
					start[k] = append(start[k], sh.node)
				}
			}
		}
		for _, set := range start[:len(s.top)] {
			s.neighbours(set)
		}
		if len(s.top) == 0 || s.top[0].score >= before-tiny {
			return
		}
	}
}

func (s *search) neighbours(set []int) {
	for _, i := range set {
		s.inSet[i] = true
	}
	for _, i := range set {
		s.inSet[i] = false
		for _, t := range s.l.order(i)[1:min(len(s.l.nodes), 1+2*beamWidth)] {
			if j := int(t); !s.inSet[j] && s.part[j] > 0 {
				s.inSet[j] = true
				s.try(j)
				if set[0] != i {
					s.try(set[0])
				}
				s.inSet[j] = false
			}
		}
		s.inSet[i] = true
	}
	for _, i := range set {
		s.inSet[i] = false
	}
}
