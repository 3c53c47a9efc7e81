package place

import (
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

	crowd []float64 // what contention and load cost the first vCPU of shared work

	vcpus  []float64      // the division being tried
	runsOn []int          // the nodes that have vCPUs in it, rising
	memory []topology.KiB //
	within []int          // the nodes of inSet when memory was divided, rising
	beyond []int          // the other nodes, where it was divided over these, too
	spills bool           // it may be
	costs  []float64      // by node: distance of the CPUs as divided, see reckon
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

func newSearch(l *Ledger, w *want) *search {
	n := len(l.nodes)
	s := &l.scratch
	if len(s.room) != n {
		ints := make([]int, 2*n)
		sizes := make([]topology.KiB, 2*n)
		floats := make([]float64, 5*n)
		bools := make([]bool, 2*n)
		*s = search{
			room: ints[:n:n], set: ints[n:n], mem: sizes[:n:n], memory: sizes[n:],
			top: make([]candidate, 0, beamWidth), cap: floats[:n:n], vcpus: floats[n : 2*n : 2*n],
			part: floats[2*n : 3*n : 3*n], crowd: floats[3*n : 4*n : 4*n], costs: floats[4*n:], inSet: bools[:n:n],
			out: bools[n:],
		}
	}
	s.l, s.w = l, w
	s.top, s.set = s.top[:0], s.set[:0]
	s.branches, s.gaveUp = 0, false
	s.ceiling = w.ceiling(l)
	s.declined.shares = s.declined.shares[:0]
	for i := range n {
		s.room[i], s.mem[i] = w.cpuRoom(l, i), w.memoryRoom(l, i)
		s.part[i] = float64(s.room[i])
		if w.Class == workload.Shared && w.eligible(l, i) {
			s.part[i] = l.sharedRoom(&l.nodes[i])
			s.crowd[i] = w.nextCosts(&l.nodes[i])
		}
		s.inSet[i], s.out[i] = false, false
	}
	return s
}

// run fills top with the best candidates: single nodes, and sets of any size for what is
// not to stay whole.
func (s *search) run() {
	if s.w.MinNodes <= 1 {
		s.singles()
	}
	if s.w.MaxNodes == 1 || len(s.l.nodes) < 2 || s.staysWhole() || !s.enough() {
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

// staysWhole reports whether no set of several nodes is to be searched. Work that fits a node is
// not split for what others have booked there, nor for cores: only where it was measured to
// wait for a CPU, and would wait on the best node too.
func (s *search) staysWhole() bool {
	found := len(s.top) > 0
	switch {
	case found && (s.w.Class == workload.Dedicated || s.top[0].terms[contention] <= tiny):
		return true
	case found && s.w.waited > 0:
		return false
	}
	return s.w.fitsNode(s.l)
}

// found runs the search and reports whether there is an answer.
func (s *search) found() bool {
	s.run()
	return len(s.top) > 0
}

func (s *search) singles() {
	w := s.w
	for i := range s.l.nodes {
		if s.room[i] >= w.vcpus && s.mem[i] >= w.memory && !w.farFromRequired(s.l, []share{{node: i, vcpus: 1}}) {
			s.offerSingle(i)
		}
	}
}

func (s *search) offerSingle(i int) {
	s.shares = append(s.shares[:0], share{i, float64(s.w.vcpus), s.w.memory})
	c := candidate{shares: s.shares}
	s.w.weigh(s.l, &c)
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

// grow offers, for each node, the set that results when the workload is filled
// in around it.
func (s *search) grow() {
	for i := range s.inSet {
		s.inSet[i] = s.part[i] > 0
	}
	for p := range s.l.nodes {
		if s.part[p] > 0 || s.mem[p] > 0 {
			s.try(p)
			if s.w.Class != workload.Dedicated { // has no centre
				break
			}
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
	s.share()
	if (s.w.MaxNodes > 0 && len(s.shares) > s.w.MaxNodes) || len(s.shares) < s.w.MinNodes ||
		s.w.farFromRequired(s.l, s.shares) {
		return
	}
	c := candidate{shares: s.shares}
	s.w.weigh(s.l, &c)
	c.terms[distance] += nodePenalty * float64(s.w.vcpus) * float64(len(s.shares)-1)
	c.score = c.terms.sum()
	if c.access > s.ceiling+tiny {
		s.decline(&c)
		return
	}
	s.offer(&c)
}

// share makes the division being tried the shares of a candidate.
func (s *search) share() {
	s.shares = s.shares[:0]
	add := func(i int) {
		if s.vcpus[i] > 0 || s.memory[i] > 0 {
			s.shares = append(s.shares, share{i, s.vcpus[i], s.memory[i]})
		}
	}
	if !s.w.Even && !s.spills { // of 64 nodes mostly two are in the set
		for _, i := range s.within {
			add(i)
		}
		return
	}
	for i := range s.vcpus {
		add(i)
	}
}

// decline keeps the best candidate that does not pay, for the report.
func (s *search) decline(c *candidate) {
	if d := &s.declined; len(d.shares) == 0 || c.score < d.score {
		kept := append(d.shares[:0], c.shares...)
		*d = *c
		d.shares = kept
	}
}

// growEvenly offers, for each node and number of nodes, the nearest that can
// hold an even part.
func (s *search) growEvenly() {
	for p := range s.l.nodes {
		for nodes := max(2, s.w.MinNodes); nodes <= min(len(s.l.nodes), s.w.vcpus); nodes++ {
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
	room := 0
	for _, i := range set {
		s.inSet[i] = true
		room += s.room[i]
	}
	exact := s.w.Class == workload.Dedicated && !s.w.Even
	for _, i := range set {
		s.inSet[i] = false
		for _, t := range s.l.order(i)[1:min(len(s.l.nodes), 1+2*beamWidth)] {
			j := int(t)
			if exact && room-s.room[i]+s.room[j] < s.w.vcpus {
				continue // the set has too few CPUs
			}
			if !s.inSet[j] && s.part[j] > 0 {
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
