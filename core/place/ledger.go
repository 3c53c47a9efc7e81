package place

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Ledger is a host with what is placed on it. It is kept up to date placement
// by placement, so that a decision needs no look at the whole host.
type Ledger struct {
	host   *topology.Host
	policy plan.Policy
	nodes  []node     // in the order of host.Nodes
	caches []cache    // by node, then lowest CPU
	cores  []core     // by node, then cache, then lowest CPU
	nodeAt []int32    // index into nodes by node ID; -1 for none
	coreAt []int32    // index into cores by CPU ID; -1 for a CPU that may not be given
	owners []uint16   // dedicated placements that hold a CPU, by CPU ID
	access []float64  // relative access cost by row × len(nodes) + column: CPUs of the row, memory of the column
	held   []*holding // rising by workload ID; pointers, for inserting in the middle moves all behind

	largest     int          // CPUs that may be given on the node with most
	mostMemory  topology.KiB // known memory of the node with most
	nearest     []int32      // see order; made on first use
	nearestFrom []int32      // see orderFrom; made on first use
	scratch     search       // memory that one search after the other uses
}

// node is what the ledger knows of one NUMA node.
type node struct {
	id           topology.NodeID
	cores        span         // of Ledger.cores
	caches       span         // of Ledger.caches
	usable       int          // CPUs that may be given: online, allowed, not reserved, not beyond the border
	free         int          // usable CPUs that no dedicated work holds
	split        bool         // there is a border: what follows is the other side's, else 0
	apart        int          // CPUs that only shared and offline work may be given
	apartFree    int          // … that no dedicated work holds all the same
	whole        int          // cores all of whose CPUs are usable and free
	wholeCPUs    int          // CPUs of those cores
	wholeUsable  int          // cores all of whose CPUs are usable
	threads      int          // CPUs of the largest core; 1 without any
	shared       micro        // vCPUs of the shared work that has its home here
	reserve      micro        // vCPUs worth of idle CPU that important work keeps here
	foreign      float64      // CPUs kept busy by work that has no placement
	memory       topology.KiB // that placements may book; unlimited when unknown
	memoryFree   topology.KiB
	pages        []pool
	bandwidth    int64 // booked, MiB/s
	bandwidthCap int64 // MiB/s
	devices      int

	lastForOffline bool // some offline workload has no CPU but here, see guardOffline
}

// pool is the huge pages of one size on one node, in KiB.
type pool struct{ size, total, free topology.KiB }

// micro is millionths of a vCPU. Parts of vCPUs are added up as whole numbers, so
// that a sum does not depend on the order in which placements came.
type micro int64

func (m micro) vcpus() float64 { return float64(m) / 1e6 }

// given is the CPUs that work of a class may be given on the node.
func (n *node) given(class workload.Class) int {
	if n.split && class != workload.Dedicated {
		return n.apart
	}
	return n.usable
}

// open is the CPUs that shared work may float over now.
func (n *node) open() int {
	if n.split {
		return n.apartFree
	}
	return n.free
}

// idle is the CPUs that offline work may use now.
func (n *node) idle() int { return n.free + n.apartFree }

func (n *node) sharedVCPUs() float64 { return n.shared.vcpus() }

type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// cache is a last-level cache, or the part of one that lies on one node.
type cache struct {
	cores span
	free  int // usable CPUs that no dedicated work holds
	whole int
}

// core is a physical core. Bit k of a mask is the k-th of its usable CPUs.
type core struct {
	node, cache int32
	threads     int // online CPUs, also those that may not be given
	cpus        []topology.CPUID
	free        uint64 // without those of apart
	apart       uint64 // beyond the border: not for dedicated work
	apartFree   uint64
}

func (c *core) all() uint64 { return 1<<len(c.cpus) - 1 }

// mayBeWhole reports whether one tenant may be given all of the core.
func (c *core) mayBeWhole() bool { return c.threads == len(c.cpus) && c.apart == 0 }

// whole reports whether nobody has or may have any CPU of the core: a tenant
// that takes all of it shares it with no one, not even the host.
func (c *core) whole() bool { return c.threads == len(c.cpus) && c.free == c.all() }

// holding is a placement in the ledger.
type holding struct {
	plan.Placement
	home   []int          // node indices, rising
	memory []topology.KiB // by position in home; may differ from the booking, see settle
}

const (
	// unlimited stands for memory of unknown size: far above any machine, far
	// below what could overflow in sums.
	unlimited = topology.KiB(1) << 50

	// unknownBandwidth is a node's memory bandwidth, MiB/s, when nobody measured
	// it: about eight channels of DDR4-2933, the middle of today's servers. Only
	// its ratio to booked bandwidth matters.
	unknownBandwidth = 150_000
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

// index is the position of a node, or -1.
func (l *Ledger) index(id topology.NodeID) int {
	if id < 0 || int(id) >= len(l.nodeAt) {
		return -1
	}
	return int(l.nodeAt[id])
}

func (l *Ledger) addNode(i int, room topology.KiB) {
	hn := &l.host.Nodes[i]
	n := &l.nodes[i]
	n.id = hn.ID
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
	if m := l.host.Measured; m != nil && i < len(m.BandwidthMiBs) && i < len(m.BandwidthMiBs[i]) && m.BandwidthMiBs[i][i] > 0 {
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
	seen := make([]bool, len(l.coreAt))
	l.cores = make([]core, 0, len(h.Cores))
	backing := make([]topology.CPUID, 0, len(l.coreAt))
	add := func(cpus topology.CPUSet) {
		for cpu := range cpus.All() {
			if int(cpu) >= len(seen) || seen[cpu] || nodeOf[cpu] < 0 || !h.Online.Has(cpu) {
				continue
			}
			c := core{node: nodeOf[cpu], cache: cacheOf[cpu]}
			from := len(backing)
			for sib := range cpus.All() {
				if int(sib) >= len(seen) || seen[sib] || nodeOf[sib] != c.node || !h.Online.Has(sib) || c.threads == 64 {
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
						c.apart |= 1 << k
					}
				}
			}
			c.free, c.apartFree = c.all()&^c.apart, c.apart
			if len(c.cpus) > 0 {
				l.cores = append(l.cores, c)
			}
		}
	}
	for i := range h.Cores {
		add(h.Cores[i].CPUs)
	}
	for i := range h.Nodes {
		for cpu := range h.Nodes[i].CPUs.All() {
			if !seen[cpu] {
				add(topology.CPUs(cpu))
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
			l.caches = append(l.caches, cache{cores: span{i, i}})
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
			n.usable += len(c.cpus) - bits.OnesCount64(c.apart)
			n.apart += bits.OnesCount64(c.apart)
			n.apartFree = n.apart
			n.threads = max(n.threads, len(c.cpus))
			if c.mayBeWhole() {
				n.wholeUsable++
			}
			l.count(c, 1)
		}
	}
}

// count adds (sign 1) or takes away (sign -1) a core's free CPUs in the sums.
func (l *Ledger) count(c *core, sign int) {
	n, k := &l.nodes[c.node], &l.caches[c.cache]
	free := sign * bits.OnesCount64(c.free)
	n.free += free
	k.free += free
	if c.whole() {
		n.whole += sign
		n.wholeCPUs += sign * len(c.cpus)
		k.whole += sign
	}
}

// Commit puts a placement into the ledger, in place of an earlier one of the
// same workload.
func (l *Ledger) Commit(p plan.Placement) {
	l.Remove(p.Workload)
	l.add(&p)
	l.settle()
}

// Remove takes a workload out of the ledger. It does nothing for an unknown one.
func (l *Ledger) Remove(id workload.ID) {
	i, ok := l.find(id)
	if !ok {
		return
	}
	l.book(l.held[i], -1)
	l.held = slices.Delete(l.held, i, i+1)
}

// find is the position of a workload among the held, or where it would be.
func (l *Ledger) find(id workload.ID) (int, bool) {
	return slices.BinarySearchFunc(l.held, id, func(h *holding, id workload.ID) int { return cmp.Compare(h.Workload, id) })
}

func (l *Ledger) add(p *plan.Placement) {
	h := &holding{Placement: *p}
	for n := range p.Home.All() {
		if i := l.index(n); i >= 0 {
			h.home = append(h.home, i)
		}
	}
	h.memory = make([]topology.KiB, len(h.home))
	for k, i := range h.home {
		for _, m := range p.Memory {
			if m.Node == l.nodes[i].id {
				h.memory[k] += max(0, m.KiB)
			}
		}
	}
	i, _ := l.find(p.Workload)
	l.held = slices.Insert(l.held, i, h)
	l.book(l.held[i], 1)
}

// book adds (sign 1) or takes away (sign -1) what a placement holds.
func (l *Ledger) book(h *holding, sign int) {
	for k, i := range h.home {
		n := &l.nodes[i]
		if h.HugePage == 0 {
			n.memoryFree -= topology.KiB(sign) * h.memory[k]
		} else if p := n.pool(h.HugePage); p != nil {
			p.free -= topology.KiB(sign) * h.memory[k]
		}
		if h.Class != workload.Offline { // its home changes with what others hold
			n.bandwidth += int64(sign) * h.Bandwidth / int64(len(h.home))
		}
	}
	switch h.Class {
	case workload.Dedicated:
		for cpu := range h.CPUs.All() {
			l.hold(cpu, sign)
		}
		for cpu := range h.Idle.All() {
			l.hold(cpu, sign)
		}
	case workload.Shared:
		l.eachShare(h.home, func(i int, share float64) {
			v := micro(share * float64(h.VCPUs) * 1e6)
			l.nodes[i].shared += micro(sign) * v
			l.nodes[i].reserve += micro(sign) * (v * micro(Reserve(h.Importance)) / 100)
		})
	}
}

// load is the CPUs that floating work wants on a node: its vCPUs, what important
// work keeps idle, and what runs there without a placement.
func (n *node) load() float64 { return (n.shared + n.reserve).vcpus() + n.foreign }

// hold counts one more or one less dedicated placement on a CPU.
func (l *Ledger) hold(cpu topology.CPUID, sign int) {
	if int(cpu) >= len(l.coreAt) || l.coreAt[cpu] < 0 {
		return
	}
	before := l.owners[cpu] > 0
	l.owners[cpu] += uint16(sign)
	after := l.owners[cpu] > 0
	if after == before {
		return
	}
	c := &l.cores[l.coreAt[cpu]]
	bit := uint64(1) << slices.Index(c.cpus, cpu)
	if c.apart&bit != 0 { // held from before the border came there
		c.apartFree ^= bit
		if after {
			l.nodes[c.node].apartFree--
		} else {
			l.nodes[c.node].apartFree++
		}
		return
	}
	l.count(c, -1)
	c.free ^= bit
	l.count(c, 1)
}

// eachShare tells how a floating workload divides over its home: in proportion
// to the CPUs that may be given, whatever is held there now, so that the ledger
// does not depend on the order of commits.
func (l *Ledger) eachShare(home []int, yield func(i int, share float64)) {
	total := 0
	for _, i := range home {
		total += l.nodes[i].given(workload.Shared)
	}
	for _, i := range home {
		if u := l.nodes[i].given(workload.Shared); u > 0 {
			yield(i, float64(u)/float64(total))
		}
	}
}

func (n *node) pool(size topology.KiB) *pool {
	for i := range n.pages {
		if n.pages[i].size == size {
			return &n.pages[i]
		}
	}
	return nil
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

// settle spreads the bookings anew when some node holds more than it has while
// wide bookings on it could lie elsewhere on their home: a booking says how
// memory was meant to lie, the kernel decides.
func (l *Ledger) settle() {
	over := false
	for i := range l.nodes {
		over = over || l.nodes[i].memoryFree < 0
	}
	if !over {
		return
	}
	caps := make([]topology.KiB, len(l.nodes))
	for i := range l.nodes {
		caps[i] = l.nodes[i].memory
	}
	var bookings []plan.Booking
	var want [][]topology.KiB
	var whose []int
	for i := range l.held {
		h := l.held[i]
		if h.HugePage > 0 {
			continue
		}
		b := plan.Booking{Nodes: h.home}
		for _, m := range h.memory {
			b.KiB += m
		}
		bookings, want, whose = append(bookings, b), append(want, h.memory), append(whose, i)
	}
	spread, full := plan.Settle(caps, bookings, want)
	if full != nil {
		return
	}
	for k, i := range whose {
		h := l.held[i]
		for pos, n := range h.home {
			l.nodes[n].memoryFree += h.memory[pos] - spread[k][pos]
		}
		h.memory = spread[k]
	}
}

// guardOffline marks the nodes that hold the last CPUs of some offline workload.
func (l *Ledger) guardOffline() {
	for i := range l.nodes {
		l.nodes[i].lastForOffline = false
	}
	for k := range l.held {
		h := l.held[k]
		if h.Class != workload.Offline {
			continue
		}
		only, more := -1, false
		for i := range l.nodes {
			if n := &l.nodes[i]; n.idle() > 0 && (h.Within.Empty() || h.Within.Has(n.id)) {
				more = only >= 0
				only = i
				if more {
					break
				}
			}
		}
		if only >= 0 && !more {
			l.nodes[only].lastForOffline = true
		}
	}
}

// keep is the number of CPUs of a node that shared and offline work needs at least.
func (l *Ledger) keep(n *node) int {
	switch {
	case n.split: // they have theirs apart
	case n.shared > 0:
		return max(1, ceil(n.sharedVCPUs()/l.overcommit()))
	}
	if n.lastForOffline && n.apartFree == 0 {
		return 1
	}
	return 0
}

// tiny keeps rounding from counting: of parts of vCPUs (see micro), of scores.
const tiny = 1e-5

func ceil(x float64) int {
	i := int(x)
	if x-float64(i) > tiny {
		i++
	}
	return i
}

// overcommit is the policy's, or none when the policy does not say.
func (l *Ledger) overcommit() float64 {
	if oc := l.policy.Overcommit; oc >= 1 && oc < 1e6 {
		return oc
	}
	return 1
}

// floating is the CPUs that work of a class, shared or offline, may use on the given
// nodes.
func (l *Ledger) floating(home []int, class workload.Class) topology.CPUSet {
	var set topology.CPUSet
	for _, i := range slices.Backward(home) {
		s := l.nodes[i].cores
		for k := s.hi - 1; k >= s.lo; k-- {
			c := &l.cores[k]
			m := c.apartFree
			if !l.policy.Split || class == workload.Offline {
				m |= c.free
			}
			for ; m != 0; m &= m - 1 {
				set.Add(c.cpus[bits.TrailingZeros64(m)])
			}
		}
	}
	return set
}

// Placements is what the ledger holds, rising by workload ID. Floating
// workloads have the CPU sets that are free for them now.
func (l *Ledger) Placements() []plan.Placement {
	out := make([]plan.Placement, len(l.held))
	for i := range l.held {
		out[i] = l.placement(l.held[i])
	}
	return out
}

func (l *Ledger) placement(h *holding) plan.Placement {
	p := h.Placement
	switch p.Class {
	case workload.Shared:
		p.CPUs = l.floating(h.home, p.Class)
	case workload.Offline:
		p.CPUs, p.Home = l.offlineCPUs(&p)
	}
	return p
}

// offlineCPUs is where an offline workload runs: every CPU that no dedicated
// work holds, on the nodes it may use. Its home is the nodes of those CPUs and
// of its memory.
func (l *Ledger) offlineCPUs(p *plan.Placement) (topology.CPUSet, topology.NodeSet) {
	var on []int
	var home topology.NodeSet
	for i := range l.nodes {
		n := &l.nodes[i]
		if n.idle() > 0 && (p.Within.Empty() || p.Within.Has(n.id)) {
			on = append(on, i)
			home.Add(n.id)
		}
	}
	for _, m := range p.Memory {
		if l.index(m.Node) >= 0 {
			home.Add(m.Node)
		}
	}
	return l.floating(on, workload.Offline), home
}
