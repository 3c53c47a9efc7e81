package place

import (
	"math/bits"

	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// cache is a last-level cache, or the part of one that lies on one node.
type cache struct {
	cores     span
	id        topology.CacheID // None for CPUs without a known cache
	free      int              // usable CPUs that no dedicated work holds
	whole     int              // cores all of whose CPUs are usable and free
	wholeCPUs int              // CPUs of these cores
	shared    micro            // vCPUs of the shared work that is kept in caches, this one among them
}

// holds is how many vCPUs of dedicated work the cache can take.
func (k *cache) holds(smt workload.SMTPolicy) int {
	switch smt {
	case workload.SMTIsolate:
		return k.whole
	case workload.SMTRequire:
		return k.wholeCPUs
	}
	return k.free
}

// piece is a cache with the vCPUs that it holds.
type piece struct{ cache, holds int }

// fewest returns the fewest pieces that hold want, the largest first, and of such sets a tight one:
// 6 and 6 before 8 and 6 for 12, so that whole caches stay for the work that needs them. Where all
// of them hold less, it returns all. pieces are reordered.
func fewest(pieces []piece, want int) []piece {
	largestFirst(pieces)
	n, sum := 0, 0
	for n < len(pieces) && sum < want {
		sum += pieces[n].holds
		n++
	}
	for i := 0; i < n && sum > want; i++ {
		for k := len(pieces) - 1; k >= n; k-- {
			if less := pieces[i].holds - pieces[k].holds; less > 0 && sum-less >= want {
				pieces[i], pieces[k] = pieces[k], pieces[i]
				sum -= less
				break
			}
		}
	}
	largestFirst(pieces[:n])
	return pieces[:n]
}

// largestFirst sorts pieces. A node has few caches: package slices takes a tenth longer for a whole decision.
func largestFirst(pieces []piece) {
	for i := 1; i < len(pieces); i++ {
		for k := i; k > 0 && pieces[k].holds > pieces[k-1].holds; k-- {
			pieces[k], pieces[k-1] = pieces[k-1], pieces[k]
		}
	}
}

const (
	// cacheShare is the share of a thread's accesses that are to a line which another core has changed, of
	// those that leave its core: about three in eight.
	cacheShare = 0.375
	// cacheExtra is how much longer such a line takes from another cache of the node than from the own one, in
	// accesses to local memory, where it is not measured: 80 ns of 100 on EPYC. Their product is 0.3. Between
	// 0.2 and 0.4 the shared cases barely change (bench/placement).
	cacheExtra = 0.8
	// cacheMost bounds the cost of a vCPU all of whose partners are in other caches: a measurement on a busy
	// machine must not make a far node's memory look cheap.
	cacheMost = 0.6
	// cacheHoleWeight is per CPU left over in a cache that is broken: whole ones stay for the work that
	// needs them. It decides between nodes that are alike otherwise; larger values cost utility.
	cacheHoleWeight = 0.001
)

// crossingCost returns the cost of a vCPU all of whose partners are in other caches of its node, in accesses to
// local memory: by the measured latencies of cache lines (`homenode probe c2c`) and memory, else by cacheExtra.
func crossingCost(m *topology.Measured) float64 {
	extra := cacheExtra
	if m != nil && m.LineOwnNs > 0 && m.LineOtherNs > 0 {
		local, n := 0.0, 0
		for i, row := range m.LatencyNs {
			if i < len(row) && row[i] > 0 {
				local += row[i]
				n++
			}
		}
		if n > 0 {
			extra = (m.LineOtherNs - m.LineOwnNs) / (local / float64(n))
		}
	}
	return min(max(0, cacheShare*extra), cacheMost)
}

// weighCaches adds the cost of the last-level caches of node n for dedicated work that takes vcpus there.
func (w *want) weighCaches(l *Ledger, n *node, vcpus int, t *terms) {
	if vcpus <= 0 {
		return
	}
	pieces := l.pieces[:0]
	for k := n.caches.lo; k < n.caches.hi; k++ {
		if holds := l.caches[k].holds(w.SMT); holds > 0 {
			pieces = append(pieces, piece{k, holds})
		}
	}
	l.pieces = pieces
	left, together := vcpus, 0.0
	for _, x := range fewest(pieces, vcpus) {
		part := min(left, x.holds)
		if left -= part; left == 0 {
			t[caches] += cacheHoleWeight * float64(x.holds-part)
		}
		together += float64(part * part)
	}
	t[caches] += l.crossing * float64(vcpus) * (1 - together/float64(vcpus*vcpus))
}

// cachesOf returns the caches that CPUs of a home are in; none where those are all caches of the
// home, and where none divide it. It is Host.CachesOf, from the books.
func (l *Ledger) cachesOf(cpus topology.CPUSet, home []int) (in topology.CacheSet) {
	all, divided := l.cachesOn(home)
	if !divided {
		return in
	}
	for cpu := range cpus.All() {
		if l.nodeOf(cpu) < 0 {
			continue
		}
		if id := l.caches[l.cores[l.coreAt[cpu]].cache].id; id != topology.None {
			in.Add(id)
		}
	}
	if in.Equal(all) {
		return topology.CacheSet{}
	}
	return in
}

// cachesOn returns the caches of a home, and whether they divide it.
func (l *Ledger) cachesOn(home []int) (all topology.CacheSet, divided bool) {
	if !l.divided {
		return all, false
	}
	for _, i := range home {
		divided = divided || l.nodes[i].divided
	}
	if !divided {
		return all, false
	}
	if len(home) == 1 {
		return l.nodes[home[0]].llcs, true
	}
	for _, i := range home {
		all = all.Union(l.nodes[i].llcs)
	}
	return all, true
}

// findCaches notes which caches each node has, and which nodes they divide (topology.CachesOn).
func (l *Ledger) findCaches(nodeOf []int32) {
	h := l.host
	l.crossing = crossingCost(h.Measured)
	last, count := filled(len(l.nodes), -1), make([]int, len(l.nodes))
	most := 0
	each := func(i int, yield func(n int32)) { // the nodes of cache i
		for cpu := range h.LLCs[i].CPUs.All() {
			if int(cpu) >= len(nodeOf) || nodeOf[cpu] < 0 || last[nodeOf[cpu]] == int32(i) {
				continue
			}
			last[nodeOf[cpu]] = int32(i)
			yield(nodeOf[cpu])
		}
	}
	for i := range h.LLCs {
		each(i, func(n int32) {
			count[n]++
			most = max(most, count[n])
		})
	}
	if most < 2 {
		return
	}
	coreOf := filled(len(nodeOf), -1)
	for i := range h.Cores {
		for cpu := range h.Cores[i].CPUs.All() {
			if int(cpu) < len(coreOf) {
				coreOf[cpu] = int32(i)
			}
		}
	}
	for i := range last {
		last[i] = -1
	}
	for i := range h.LLCs {
		serves := l.serves(&h.LLCs[i], coreOf)
		each(i, func(n int32) {
			x := &l.nodes[n]
			x.llcs.Add(h.LLCs[i].ID)
			x.divided = x.divided || (count[n] > 1 && serves)
			l.divided = l.divided || x.divided
		})
	}
}

// serves reports whether a cache serves several cores.
func (l *Ledger) serves(k *topology.LLC, coreOf []int32) bool {
	first := k.CPUs.Min()
	for cpu := range k.CPUs.All() {
		if int(cpu) < len(coreOf) && cpu != first && (coreOf[cpu] < 0 || coreOf[cpu] != coreOf[first]) {
			return true
		}
	}
	return false
}

// openIn is the CPUs of a cache that shared work may float over now.
func (l *Ledger) openIn(k *cache) int {
	if !l.policy.Split {
		return k.free
	}
	open := 0
	for i := k.cores.lo; i < k.cores.hi; i++ {
		open += bits.OnesCount64(l.cores[i].sharedOnlyFree)
	}
	return open
}

// placesCaches reports whether shared work is kept in few caches of its home.
func (l *Ledger) placesCaches() bool { return l.divided && l.policy.Caches == plan.CachesPlace }

// eachCache calls yield for the caches of node i that a set names.
func (l *Ledger) eachCache(i int, in topology.CacheSet, yield func(k *cache)) {
	s := l.nodes[i].caches
	for k := s.lo; k < s.hi; k++ {
		if c := &l.caches[k]; c.id != topology.None && in.Has(c.id) {
			yield(c)
		}
	}
}

// bookCaches adds (sign 1) or takes away (sign -1) the vCPUs of shared work that is kept in caches.
func (l *Ledger) bookCaches(h *holding, i int, v micro, sign int) {
	total := 0
	l.eachCache(i, h.Caches, func(k *cache) { total += k.cores.len() })
	l.eachCache(i, h.Caches, func(k *cache) { k.shared += micro(sign) * v * micro(k.cores.len()) / micro(total) })
}

// cachesFor returns the fewest caches of a home that have room for shared work: those with most
// room, so that none is overfull while another has room. It returns none where the home has
// no such caches, and for work that is wider than a node.
func (w *want) cachesFor(l *Ledger, home []int) topology.CacheSet {
	if len(home) != 1 || !l.nodes[home[0]].divided || w.Class != workload.Shared {
		return topology.CacheSet{}
	}
	n := &l.nodes[home[0]]
	named := micro(0) // vCPUs that caches have booked
	for k := n.caches.lo; k < n.caches.hi; k++ {
		named += l.caches[k].shared
	}
	wide := max(0, n.shared-named).vcpus() / float64(max(1, n.open())) // of a CPU, by work that floats over the node
	rooms := make([]demand.CacheRoom, 0, n.caches.len())
	for k := n.caches.lo; k < n.caches.hi; k++ {
		c := &l.caches[k]
		open := l.openIn(c)
		if open == 0 || c.id == topology.None {
			continue
		}
		booked := c.shared.vcpus() + wide*float64(open)
		rooms = append(rooms, demand.CacheRoom{ID: c.id, CPUs: open, Load: demand.AtMost(booked)})
	}
	wanted := demand.AtMost(float64(w.vcpus))
	in := demand.ChooseCaches(among(rooms, w.partnersCaches(l, home)), w.vcpus, wanted)
	if in.Empty() {
		in = demand.ChooseCaches(rooms, w.vcpus, wanted)
	}
	if in.Equal(n.llcs) {
		return topology.CacheSet{}
	}
	return in
}

// partnersCaches returns the caches of a home of the workloads that this one should be near.
func (w *want) partnersCaches(l *Ledger, home []int) (in topology.CacheSet) {
	for i := range w.Near {
		if w.Near[i].Workload == "" {
			continue
		}
		k, ok := l.find(w.Near[i].Workload)
		if !ok {
			continue
		}
		h := l.held[k]
		if h.Class == workload.Dedicated {
			in = in.Union(l.cachesOf(h.CPUs, home))
		} else {
			in = in.Union(h.Caches)
		}
	}
	return in
}

// among returns those of some caches that a set has.
func among(rooms []demand.CacheRoom, in topology.CacheSet) (out []demand.CacheRoom) {
	for i := range rooms {
		if in.Has(rooms[i].ID) {
			out = append(out, rooms[i])
		}
	}
	return out
}

// renewCaches keeps the caches of shared work while they have CPUs for all its vCPUs. Where they have not, and where
// shared work is not kept in caches, it may use all of its home: others are chosen by what it was measured to want
// (core/control/concern/llc).
func (w *want) renewCaches(l *Ledger, p *plan.Placement, home []int) {
	if p.Caches.Empty() {
		return
	}
	open := 0
	kept := l.placesCaches() && len(home) == 1 && p.Caches.SubsetOf(l.nodes[home[0]].llcs)
	if kept {
		l.eachCache(home[0], p.Caches, func(k *cache) { open += l.openIn(k) })
	}
	if !kept || open < w.vcpus {
		p.Caches = topology.CacheSet{}
	}
}
