package cores

import (
	"math/bits"

	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Micro is millionths of a vCPU. Parts of vCPUs are added up as whole numbers, so
// that a sum does not depend on the order in which placements came.
type Micro int64

// VCPUs returns the amount in vCPUs.
func (m Micro) VCPUs() float64 { return float64(m) / 1e6 }

// cache is a last-level cache, or the part of one that lies on one node.
type cache struct {
	cores     span
	id        topology.CacheID // None for CPUs without a known cache
	free      int              // usable CPUs that no dedicated work holds
	whole     int              // cores all of whose CPUs are usable and free
	wholeCPUs int              // CPUs of the whole cores
	shared    Micro            // vCPUs of the shared work that is kept in caches, this one among them
}

// holds returns how many vCPUs of dedicated work the cache can take.
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

// Divide divides vCPUs of dedicated work over the fewest caches of a node that hold them. It returns the sum of the
// squares of the parts, and the vCPUs for which the cache with the last part still has room.
func (b *Books) Divide(node, vcpus int, smt workload.SMTPolicy) (squares float64, over int) {
	n := &b.Nodes[node]
	pieces := b.pieces[:0]
	for k := n.caches.lo; k < n.caches.hi; k++ {
		if holds := b.caches[k].holds(smt); holds > 0 {
			pieces = append(pieces, piece{k, holds})
		}
	}
	b.pieces = pieces
	left := vcpus
	for _, x := range fewest(pieces, vcpus) {
		part := min(left, x.holds)
		if left -= part; left == 0 {
			over = x.holds - part
		}
		squares += float64(part * part)
	}
	return squares, over
}

// CachesOf returns the caches that CPUs of a home are in; none where those are all caches of the
// home, and where none divide it. home has the indices of its nodes. It is Host.CachesOf, from the books.
func (b *Books) CachesOf(cpus topology.CPUSet, home []int) (in topology.CacheSet) {
	all, divided := b.cachesOn(home)
	if !divided {
		return in
	}
	for cpu := range cpus.All() {
		if b.NodeOf(cpu) < 0 {
			continue
		}
		if id := b.cacheOf(cpu); id != topology.None {
			in.Add(id)
		}
	}
	if in.Equal(all) {
		return topology.CacheSet{}
	}
	return in
}

// cacheOf returns the cache of a CPU that work may be given.
func (b *Books) cacheOf(cpu topology.CPUID) topology.CacheID {
	return b.caches[b.cores[b.coreAt[cpu]].cache].id
}

// cachesOn returns the caches of a home, and whether they divide it.
func (b *Books) cachesOn(home []int) (all topology.CacheSet, divided bool) {
	if !b.Divided {
		return all, false
	}
	for _, i := range home {
		divided = divided || b.Nodes[i].Divided
	}
	if !divided {
		return all, false
	}
	if len(home) == 1 {
		return b.Nodes[home[0]].llcs, true
	}
	for _, i := range home {
		all = all.Union(b.Nodes[i].llcs)
	}
	return all, true
}

// openIn returns the number of CPUs of a cache that shared work may float over now.
func (b *Books) openIn(k *cache) int {
	if !b.split {
		return k.free
	}
	open := 0
	for i := k.cores.lo; i < k.cores.hi; i++ {
		open += bits.OnesCount64(b.cores[i].sharedOnlyFree)
	}
	return open
}

// OpenIn returns the number of CPUs that shared work may float over now in some caches of a node; 0 where it lacks one
// of them.
func (b *Books) OpenIn(node int, in topology.CacheSet) (open int) {
	if !in.SubsetOf(b.Nodes[node].llcs) {
		return 0
	}
	b.each(node, in, func(k *cache) { open += b.openIn(k) })
	return open
}

// each calls yield for the caches of a node that a set names.
func (b *Books) each(node int, in topology.CacheSet, yield func(k *cache)) {
	s := b.Nodes[node].caches
	for k := s.lo; k < s.hi; k++ {
		if c := &b.caches[k]; c.id != topology.None && in.Has(c.id) {
			yield(c)
		}
	}
}

// Book adds vCPUs of shared work to the caches of a node that it is kept in, by their cores; fewer than 0 take it away
// again.
func (b *Books) Book(node int, in topology.CacheSet, vcpus Micro) {
	total := 0
	b.each(node, in, func(k *cache) { total += k.cores.len() })
	b.each(node, in, func(k *cache) { k.shared += vcpus * Micro(k.cores.len()) / Micro(total) })
}

// Caches returns the fewest last-level caches of a node that have room for the vCPUs of shared work: the caches with
// most room, so that none is overfull while another has room; preferred ones where they have room. shared is the
// vCPUs of all shared work on the node: those not booked in caches (Book) float over all caches. Caches returns none
// where that is all caches of the node, or no caches have room.
func (b *Books) Caches(node int, shared Micro, vcpus int, prefer topology.CacheSet) topology.CacheSet {
	n := &b.Nodes[node]
	kept := Micro(0)
	for k := n.caches.lo; k < n.caches.hi; k++ {
		kept += b.caches[k].shared
	}
	wide := max(0, shared-kept).VCPUs() / float64(max(1, n.Open())) // of a CPU, by work that floats over the node
	rooms := make([]demand.CacheRoom, 0, n.caches.len())
	var preferred []demand.CacheRoom
	for k := n.caches.lo; k < n.caches.hi; k++ {
		c := &b.caches[k]
		open := b.openIn(c)
		if open == 0 || c.id == topology.None {
			continue
		}
		booked := c.shared.VCPUs() + wide*float64(open)
		room := demand.CacheRoom{ID: c.id, CPUs: open, Load: demand.AtMost(booked)}
		rooms = append(rooms, room)
		if prefer.Has(c.id) {
			preferred = append(preferred, room)
		}
	}
	wanted := demand.AtMost(float64(vcpus))
	in := demand.ChooseCaches(preferred, vcpus, wanted)
	if in.Empty() {
		in = demand.ChooseCaches(rooms, vcpus, wanted)
	}
	if in.Equal(n.llcs) {
		return topology.CacheSet{}
	}
	return in
}
