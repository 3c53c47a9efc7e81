package cores

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// New returns the books of a host on which no CPU is held. Of the policy they keep the reserved CPUs and the
// partition.
func New(h *topology.Host, policy *plan.Policy) Books {
	b := Books{Nodes: make([]Node, len(h.Nodes)), split: policy.Split}
	maxCPU := h.Online.Max()
	for i := range h.Nodes {
		maxCPU = max(maxCPU, h.Nodes[i].CPUs.Max())
		b.Nodes[i].split = policy.Split
		b.Nodes[i].threads = 1
	}
	b.coreAt = filled(int(maxCPU) + 1)
	b.owners = make([]uint16, len(b.coreAt))
	b.addCores(h, policy)
	return b
}

// filled returns n times -1.
func filled(n int) []int32 { return slices.Repeat([]int32{-1}, n) }

// addCores lays out the CPUs that work may be given as cores, caches and nodes. CPUs
// the host lists under no core or no cache are each their own.
func (b *Books) addCores(h *topology.Host, policy *plan.Policy) {
	nodeOf := filled(len(b.coreAt))
	for i := range h.Nodes {
		for cpu := range h.Nodes[i].CPUs.All() {
			nodeOf[cpu] = int32(i)
		}
	}
	cacheOf := filled(len(b.coreAt))
	for i := range h.LLCs {
		for cpu := range h.LLCs[i].CPUs.All() {
			if int(cpu) < len(cacheOf) {
				cacheOf[cpu] = int32(i)
			}
		}
	}
	b.findCaches(h, nodeOf)
	slowest := b.slowBelow(h.Cores)
	seen := make([]bool, len(b.coreAt))
	b.cores = make([]core, 0, len(h.Cores))
	backing := make([]topology.CPUID, 0, len(b.coreAt))
	add := func(cpus topology.CPUSet, capacity int) {
		for cpu := range cpus.All() {
			if int(cpu) >= len(seen) || seen[cpu] || nodeOf[cpu] < 0 || !h.Online.Has(cpu) {
				continue
			}
			c := core{node: nodeOf[cpu], cache: cacheOf[cpu], slow: capacity > 0 && capacity < slowest}
			from := len(backing)
			for sib := range cpus.All() {
				if int(sib) >= len(seen) || seen[sib] || nodeOf[sib] != c.node || !h.Online.Has(sib) ||
					c.threads == 64 {
					continue
				}
				seen[sib] = true
				c.threads++
				if h.Allowed.Has(sib) && !policy.Reserved.Has(sib) {
					backing = append(backing, sib)
				}
			}
			c.cpus = backing[from:len(backing):len(backing)]
			if b.split {
				for k, cpu := range c.cpus {
					if !policy.Dedicated.Has(cpu) {
						c.sharedOnly |= 1 << k
					}
				}
			}
			c.free, c.sharedOnlyFree = c.all()&^c.sharedOnly, c.sharedOnly
			if len(c.cpus) > 0 {
				b.cores = append(b.cores, c)
			}
		}
	}
	for i := range h.Cores {
		add(h.Cores[i].CPUs, h.Cores[i].Capacity)
	}
	for i := range h.Nodes {
		for cpu := range h.Nodes[i].CPUs.All() {
			if !seen[cpu] {
				add(topology.CPUs(cpu), topology.None)
			}
		}
	}
	slices.SortFunc(b.cores, func(x, y core) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.cache, y.cache), cmp.Compare(x.cpus[0], y.cpus[0]))
	})
	b.addCaches(h.LLCs)
}

// addCaches cuts the sorted cores into caches and nodes and counts the free CPUs.
func (b *Books) addCaches(llcs []topology.LLC) {
	for i := range b.cores {
		c := &b.cores[i]
		n := &b.Nodes[c.node]
		if n.cores.len() == 0 {
			n.cores = span{i, i}
			n.caches = span{len(b.caches), len(b.caches)}
		}
		if i == n.cores.lo || b.cores[i-1].cache != c.cache {
			id := topology.CacheID(topology.None)
			if c.cache >= 0 {
				id = llcs[c.cache].ID
			}
			b.caches = append(b.caches, cache{cores: span{i, i}, id: id})
			n.caches.hi++
		}
		n.cores.hi++
		b.caches[len(b.caches)-1].cores.hi++
	}
	for k := range b.caches {
		for i := b.caches[k].cores.lo; i < b.caches[k].cores.hi; i++ {
			c := &b.cores[i]
			c.cache = int32(k)
			for _, cpu := range c.cpus {
				b.coreAt[cpu] = int32(i)
			}
			n := &b.Nodes[c.node]
			n.Usable += len(c.cpus) - bits.OnesCount64(c.sharedOnly)
			n.sharedOnly += bits.OnesCount64(c.sharedOnly)
			n.Beyond = n.sharedOnly
			n.threads = max(n.threads, len(c.cpus))
			if c.mayBeWhole() {
				n.wholeUsable++
			}
			b.count(c, 1)
		}
	}
}

// findCaches notes which caches each node has, and which nodes they divide (topology.CachesOn).
func (b *Books) findCaches(h *topology.Host, nodeOf []int32) {
	last, count := filled(len(b.Nodes)), make([]int, len(b.Nodes))
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
	coreOf := filled(len(nodeOf))
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
		several := servesSeveral(&h.LLCs[i], coreOf)
		each(i, func(n int32) {
			x := &b.Nodes[n]
			x.llcs.Add(h.LLCs[i].ID)
			x.Divided = x.Divided || (count[n] > 1 && several)
			b.Divided = b.Divided || x.Divided
		})
	}
}

// servesSeveral reports whether a cache serves several cores.
func servesSeveral(k *topology.LLC, coreOf []int32) bool {
	first := k.CPUs.Min()
	for cpu := range k.CPUs.All() {
		if int(cpu) < len(coreOf) && cpu != first && (coreOf[cpu] < 0 || coreOf[cpu] != coreOf[first]) {
			return true
		}
	}
	return false
}
