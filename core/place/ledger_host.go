package place

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// NewLedger reads a state into a ledger. What the state holds against the rules
// (see plan.Check) is held all the same, and nothing more fits there.
func NewLedger(st plan.State) *Ledger {
	h := st.Host
	l := &Ledger{host: h, policy: st.Policy}
	l.nodes = make([]node, len(h.Nodes))
	maxNode, maxCPU := topology.NodeID(-1), h.Online.Max()
	for _, n := range h.Nodes {
		maxNode = max(maxNode, n.ID)
		maxCPU = max(maxCPU, n.CPUs.Max())
	}
	l.nodeAt = filled(int(maxNode)+1, -1)
	l.coreAt = filled(int(maxCPU)+1, -1)
	l.owners = make([]uint16, len(l.coreAt))
	caps := plan.Capacity(st)
	for i := range h.Nodes {
		l.nodeAt[h.Nodes[i].ID] = int32(i)
		l.addNode(i, caps[i])
	}
	l.addCores()
	for i := range h.Devices {
		if n := l.index(h.Devices[i].Node); n >= 0 {
			l.nodes[n].devices++
		}
	}
	for i := range l.nodes {
		l.largest = max(l.largest, l.nodes[i].usable)
		if m := l.nodes[i].memory; m < unlimited {
			l.mostMemory = max(l.mostMemory, m)
		}
	}
	l.access = AccessCosts(h)
	l.held = make([]*holding, 0, len(st.Placements))
	l.arena.holdings = make([]holding, len(st.Placements))
	for i := range st.Placements {
		l.add(&st.Placements[i])
	}
	l.pageUse(h)
	l.settle()
	return l
}

func filled(n int, v int32) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func (l *Ledger) addNode(i int, room topology.KiB) {
	hn := &l.host.Nodes[i]
	n := &l.nodes[i]
	n.id, n.alone = hn.ID, topology.Nodes(hn.ID)
	n.memory = room
	if room < 0 {
		n.memory = unlimited
	}
	n.memoryFree = n.memory
	n.threads = 1
	if l.host.AllowedMems.Has(hn.ID) {
		for _, p := range hn.HugePages {
			t := p.Size * topology.KiB(max(0, p.Total))
			n.pages = append(n.pages, pool{p.Size, t, t})
		}
	}
	n.split = l.policy.Split
	n.bandwidthCap = unknownBandwidth
	if m := l.host.Measured; m != nil && i < len(m.BandwidthMiBs) && i < len(m.BandwidthMiBs[i]) &&
		m.BandwidthMiBs[i][i] > 0 {
		n.bandwidthCap = int64(m.BandwidthMiBs[i][i])
	}
}

// addCores lays out the CPUs that may be given as cores, caches and nodes. CPUs
// the host lists under no core or no cache are each their own.
func (l *Ledger) addCores() {
	h := l.host
	nodeOf := filled(len(l.coreAt), -1)
	for i := range h.Nodes {
		for cpu := range h.Nodes[i].CPUs.All() {
			nodeOf[cpu] = int32(i)
		}
	}
	cacheOf := filled(len(l.coreAt), -1)
	for i := range h.LLCs {
		for cpu := range h.LLCs[i].CPUs.All() {
			if int(cpu) < len(cacheOf) {
				cacheOf[cpu] = int32(i)
			}
		}
	}
	l.findCaches(nodeOf)
	slowest := l.slowBelow()
	seen := make([]bool, len(l.coreAt))
	l.cores = make([]core, 0, len(h.Cores))
	backing := make([]topology.CPUID, 0, len(l.coreAt))
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
				if h.Allowed.Has(sib) && !l.policy.Reserved.Has(sib) {
					backing = append(backing, sib)
				}
			}
			c.cpus = backing[from:len(backing):len(backing)]
			if l.policy.Split {
				for k, cpu := range c.cpus {
					if !l.policy.Dedicated.Has(cpu) {
						c.sharedOnly |= 1 << k
					}
				}
			}
			c.free, c.sharedOnlyFree = c.all()&^c.sharedOnly, c.sharedOnly
			if len(c.cpus) > 0 {
				l.cores = append(l.cores, c)
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
	slices.SortFunc(l.cores, func(a, b core) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.cache, b.cache), cmp.Compare(a.cpus[0], b.cpus[0]))
	})
	l.addCaches()
}

// addCaches cuts the sorted cores into caches and nodes and counts what is free.
func (l *Ledger) addCaches() {
	for i := range l.cores {
		c := &l.cores[i]
		n := &l.nodes[c.node]
		if n.cores.len() == 0 {
			n.cores = span{i, i}
			n.caches = span{len(l.caches), len(l.caches)}
		}
		if i == n.cores.lo || l.cores[i-1].cache != c.cache {
			id := topology.CacheID(topology.None)
			if c.cache >= 0 {
				id = l.host.LLCs[c.cache].ID
			}
			l.caches = append(l.caches, cache{cores: span{i, i}, id: id})
			n.caches.hi++
		}
		n.cores.hi++
		l.caches[len(l.caches)-1].cores.hi++
	}
	for k := range l.caches {
		for i := l.caches[k].cores.lo; i < l.caches[k].cores.hi; i++ {
			c := &l.cores[i]
			c.cache = int32(k)
			for _, cpu := range c.cpus {
				l.coreAt[cpu] = int32(i)
			}
			n := &l.nodes[c.node]
			n.usable += len(c.cpus) - bits.OnesCount64(c.sharedOnly)
			n.sharedOnly += bits.OnesCount64(c.sharedOnly)
			n.sharedOnlyFree = n.sharedOnly
			n.threads = max(n.threads, len(c.cpus))
			if c.mayBeWhole() {
				n.wholeUsable++
			}
			l.count(c, 1)
		}
	}
}

// pageUse takes huge pages that somebody else uses out of the pools. The host
// does not tell whose the used pages are: those beyond the bookings are foreign.
func (l *Ledger) pageUse(h *topology.Host) {
	for i := range h.Nodes {
		for _, hp := range h.Nodes[i].HugePages {
			p := l.nodes[i].pool(hp.Size)
			if p == nil || hp.Free < 0 {
				continue
			}
			used, booked := hp.Size*topology.KiB(max(0, hp.Total-hp.Free)), p.total-p.free
			if foreign := used - booked; foreign > 0 {
				p.total -= foreign
				p.free -= foreign
			}
		}
	}
}
