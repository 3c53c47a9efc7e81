package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/place/cores"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Ledger is a host with what is placed on it: book-keeping alone. It is kept up to
// date placement by placement, so that a decision needs no look at the whole host.
type Ledger struct {
	host     *topology.Host
	policy   plan.Policy
	cpus     cores.Books
	nodes    []node     // in the order of host.Nodes
	nodeAt   []int32    // index into nodes by node ID; -1 for none
	access   []float64  // relative access cost by row × len(nodes) + column: CPUs of the row, memory of the column
	held     []*holding // rising by workload ID; pointers, for inserting in the middle moves all behind
	batch    int        // of them, placements of batch work
	apart    bool       // the host has memory without CPUs that is no DRAM
	crossing float64    // cost of a vCPU all of whose partners are in other caches, see crossingCost
	crowd    bool       // vCPUs that shared work has booked leave room for more: see Request.Crowd

	largest     int          // CPUs that may be given on the node with most
	mostMemory  topology.KiB // known memory of the node with most
	renewing    []int        // memory that one renew after the other uses
	renewed     want         // likewise
	arena       arena        // memory for holdings to come
	nearest     []int32      // see order; made on first use
	nearestFrom []int32      // see orderFrom; made on first use
	scratch     search       // memory that one search after the other uses
}

// node is what the ledger knows of one NUMA node.
type node struct {
	*cores.Node  // its CPUs, in Ledger.cpus
	id           topology.NodeID
	alone        topology.NodeSet // it: one set for all homes that are this node
	shared       cores.Micro      // vCPUs of the shared work that has its home here
	reserve      cores.Micro      // vCPUs worth of idle CPU that important work keeps here
	unused       cores.Micro      // part of both that Measure found idle; below 0 when more is used than booked
	foreign      float64          // CPUs kept busy by work that has no placement
	memory       topology.KiB     // that placements may book; unlimited when unknown
	memoryFree   topology.KiB
	pages        []pool
	bandwidth    int64 // booked, MiB/s
	bandwidthCap int64 // MiB/s
	devices      int

	keptForBatch bool // some batch workload has no CPU but here, see guardBatch
}

// pool is the huge pages of one size on one node, in KiB.
type pool struct{ size, total, free topology.KiB }

func (n *node) sharedVCPUs() float64 { return n.shared.VCPUs() }

// arena is memory from which holdings are cut: thousands are made at every scan.
type arena struct {
	holdings []holding
	nodes    []int
	sizes    []topology.KiB
}

// cut takes n off the front of a slice, which is made anew when it is used up.
func cut[T any](from *[]T, n int) []T {
	if len(*from) < n {
		*from = make([]T, max(n, 256))
	}
	out := (*from)[:n:n]
	*from = (*from)[n:]
	return out
}

// holding is a placement in the ledger. Nobody changes that.
type holding struct {
	*plan.Placement
	home   []int          // node indices, rising
	memory []topology.KiB // by position in home; may differ from the booking, see settle
	unused cores.Micro    // its vCPUs that Measure found idle
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

// index is the position of a node, or -1.
func (l *Ledger) index(id topology.NodeID) int {
	if id < 0 || int(id) >= len(l.nodeAt) {
		return -1
	}
	return int(l.nodeAt[id])
}

func (l *Ledger) ids(nodes []int) topology.NodeSet {
	var s topology.NodeSet
	for _, i := range nodes {
		s.Add(l.nodes[i].id)
	}
	return s
}

// indices is the positions of nodes that the host has.
func (l *Ledger) indices(nodes topology.NodeSet) []int {
	out := make([]int, 0, nodes.Len())
	for id := range nodes.All() {
		if i := l.index(id); i >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// Commit puts a placement into the ledger, in place of an earlier one of the
// same workload. It counts as booked until it is measured again.
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

// AddForeign counts memory and CPU use of a workload that has no placement.
func (l *Ledger) AddForeign(obs *workload.Observation) {
	for _, m := range obs.Memory {
		if i := l.index(m.Node); i >= 0 && l.nodes[i].memory < unlimited {
			l.nodes[i].memory -= m.KiB
			l.nodes[i].memoryFree -= m.KiB
		}
	}
	for _, r := range obs.RanOn {
		if i := l.index(r.Node); i >= 0 {
			l.nodes[i].foreign += r.Share * obs.CPUUse
		}
	}
}

// find is the position of a workload among the held, or where it would be.
func (l *Ledger) find(id workload.ID) (int, bool) {
	return slices.BinarySearchFunc(l.held, id,
		func(h *holding, id workload.ID) int { return cmp.Compare(h.Workload, id) })
}

// putBack undoes a Remove.
func (l *Ledger) putBack(h *holding) {
	i, _ := l.find(h.Workload)
	l.held = slices.Insert(l.held, i, h)
	l.book(h, 1)
}

// clone is a ledger that can be changed without changing this one.
func (l *Ledger) clone() *Ledger {
	c := *l
	c.nodes = slices.Clone(l.nodes)
	c.cpus = l.cpus.Clone()
	for i := range c.nodes {
		c.nodes[i].Node = &c.cpus.Nodes[i]
		c.nodes[i].pages = slices.Clone(l.nodes[i].pages)
	}
	c.held = make([]*holding, len(l.held))
	for i, h := range l.held {
		c.held[i] = new(*h) // settle changes holdings
	}
	c.scratch = search{}
	c.arena = arena{}
	c.renewing = nil
	return &c
}

func (l *Ledger) add(p *plan.Placement) {
	h := l.newHolding(p)
	if n := len(l.held); n == 0 || l.held[n-1].Workload < p.Workload {
		l.held = append(l.held, h)
	} else {
		i, _ := l.find(p.Workload)
		l.held = slices.Insert(l.held, i, h)
	}
	l.book(h, 1)
}

func (l *Ledger) newHolding(p *plan.Placement) *holding {
	if len(l.arena.holdings) == 0 {
		l.arena.holdings = make([]holding, 1)
	}
	h := &cut(&l.arena.holdings, 1)[0]
	h.Placement = p
	h.home = cut(&l.arena.nodes, p.Home.Len())[:0]
	for n := range p.Home.All() {
		if i := l.index(n); i >= 0 {
			h.home = append(h.home, i)
		}
	}
	h.memory = cut(&l.arena.sizes, len(h.home))
	for k, i := range h.home {
		for _, m := range p.Memory {
			if m.Node == l.nodes[i].id {
				h.memory[k] += max(0, m.KiB)
			}
		}
	}
	return h
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
		if h.Class != workload.Batch { // its home changes with what others hold
			n.bandwidth += int64(sign) * h.Bandwidth / int64(len(h.home))
		}
	}
	switch h.Class {
	case workload.Batch:
		l.batch += sign
	case workload.Dedicated:
		l.cpus.Hold(h.Placement, sign)
	case workload.Shared:
		l.eachShare(h.home, func(i int, share float64) {
			v := cores.Micro(share * float64(h.VCPUs) * 1e6)
			l.nodes[i].shared += cores.Micro(sign) * v
			l.nodes[i].reserve += cores.Micro(sign) * (v * cores.Micro(Reserve(h.Importance)) / 100)
			if l.cpus.Divided && !h.Caches.Empty() {
				l.cpus.Book(i, h.Caches, cores.Micro(sign)*v)
			}
		})
		l.bookUnused(h, sign)
	}
}

// bookUnused adds (sign 1) or takes away (sign -1) what shared work has booked and does not use.
func (l *Ledger) bookUnused(h *holding, sign int) {
	if h.unused == 0 {
		return
	}
	l.eachShare(h.home, func(i int, share float64) {
		v := cores.Micro(share * float64(h.unused))
		l.nodes[i].unused += cores.Micro(sign) * (v + v*cores.Micro(Reserve(h.Importance))/100)
	})
}

// booked is the CPUs that floating work may come to want on a node: its vCPUs, what important
// work keeps idle, and what runs there without a placement.
func (n *node) booked() float64 { return (n.shared + n.reserve).VCPUs() + n.foreign }

// load is the CPUs that floating work wants on a node: of work that was measured what it uses,
// of other work what it has booked.
func (n *node) load() float64 { return max(0, n.shared+n.reserve-n.unused).VCPUs() + n.foreign }

// eachShare tells how a floating workload divides over its home: in proportion
// to the CPUs that may be given, whatever is held there now, so that the ledger
// does not depend on the order of commits.
func (l *Ledger) eachShare(home []int, yield func(i int, share float64)) {
	total := 0
	for _, i := range home {
		total += l.cpus.Nodes[i].Given(workload.Shared)
	}
	for _, i := range home {
		if u := l.cpus.Nodes[i].Given(workload.Shared); u > 0 {
			yield(i, float64(u)/float64(total))
		}
	}
}

// sharesOf is what each node holds of a placement.
func (l *Ledger) sharesOf(h *holding) []share {
	out := make([]share, len(h.home))
	for k, i := range h.home {
		out[k] = share{node: i, memory: h.memory[k]}
	}
	if h.Class == workload.Shared {
		k := 0
		l.eachShare(h.home, func(i int, part float64) {
			for out[k].node != i {
				k++
			}
			out[k].vcpus = part * float64(h.VCPUs)
		})
		return out
	}
	for cpu := range h.CPUs.All() {
		i := l.cpus.NodeOf(cpu)
		if k := slices.Index(h.home, i); k >= 0 {
			out[k].vcpus++
		}
	}
	return out
}

func (n *node) pool(size topology.KiB) *pool {
	for i := range n.pages {
		if n.pages[i].size == size {
			return &n.pages[i]
		}
	}
	return nil
}

// freeOf is the free memory of one page size, 0 being the kernel's own.
func (n *node) freeOf(page topology.KiB) topology.KiB {
	if page == 0 {
		return n.memoryFree
	}
	if p := n.pool(page); p != nil {
		return p.free
	}
	return 0
}

// over reports whether some node holds more memory than it has.
func (l *Ledger) over() bool {
	for i := range l.nodes {
		if l.nodes[i].memoryFree < 0 {
			return true
		}
	}
	return false
}

// settle spreads the bookings anew when some node holds more than it has while
// wide bookings on it could lie elsewhere on their home: a booking says how
// memory was meant to lie, the kernel decides.
func (l *Ledger) settle() {
	if !l.over() {
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
		bookings = append(bookings, b)
		want = append(want, h.memory)
		whose = append(whose, i)
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
