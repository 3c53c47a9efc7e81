package plan

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Capacity is the memory of each node, in the order of host.Nodes, that
// placements may book: what the node has less its huge page pools, what the
// policy keeps for the host, and what homenode does not place. It is
// topology.None where the node's memory is unknown, and 0 where this process may
// not take memory from the node.
func Capacity(st State) []topology.KiB {
	caps := make([]topology.KiB, len(st.Host.Nodes))
	for i, n := range st.Host.Nodes {
		switch {
		case !st.Host.AllowedMems.Has(n.ID):
		case n.Memory < 0:
			caps[i] = topology.None
		default:
			caps[i] = n.Memory
			for _, p := range n.HugePages {
				caps[i] -= p.Size * topology.KiB(max(p.Total, 0))
			}
			caps[i] = max(0, caps[i]-st.Policy.ReservedMemory-workload.On(st.Unmanaged, topology.Nodes(n.ID)))
			if ratio := st.Policy.MemoryRatio(); ratio > 1 {
				caps[i] = topology.KiB(float64(caps[i]) * ratio)
			}
		}
	}
	return caps
}

// Overpromised is the nodes of which more ordinary memory is booked than they have to give,
// and how much of it: what MemoryOvercommit allows.
func Overpromised(st State, placements []Placement) (nodes topology.NodeSet, booked, have topology.KiB) {
	if st.Policy.MemoryRatio() <= 1 {
		return nodes, 0, 0
	}
	st.Policy.MemoryOvercommit = 1
	for i, room := range Capacity(st) {
		on := topology.Nodes(st.Host.Nodes[i].ID)
		var sum topology.KiB
		for k := range placements {
			if placements[k].HugePage == 0 {
				sum += workload.On(placements[k].Memory, on)
			}
		}
		if room >= 0 && sum > room {
			nodes = nodes.Union(on)
			booked += sum
			have += room
		}
	}
	return nodes, booked, have
}

// pagePool is the huge page memory of one size on each node, in the order of host.Nodes.
func pagePool(h *topology.Host, size topology.KiB) []topology.KiB {
	caps := make([]topology.KiB, len(h.Nodes))
	for i, n := range h.Nodes {
		for _, p := range n.HugePages {
			if p.Size == size && h.AllowedMems.Has(n.ID) {
				caps[i] = p.Size * topology.KiB(max(p.Total, 0))
			}
		}
	}
	return caps
}

// Booking is memory that may lie anywhere on its nodes.
type Booking struct {
	Nodes []int // indices into a capacity table, rising
	KiB   topology.KiB
}

// Settle spreads divisible bookings over nodes so that no node holds more than
// its capacity. It returns what each booking puts on each of its nodes, and nil;
// or, when that cannot be done, the node set (as indices) inside which more is
// booked than it has.
//
// By Hall's theorem the bookings fit exactly when for every union Z of booked
// node sets the bookings inside Z are at most the capacity of Z. There are 2^n
// unions; a maximum flow from bookings to nodes decides the same question in
// polynomial time, and its minimum cut is a Z that fails. want[i], if given, is
// how booking i should be spread when there is room.
func Settle(caps []topology.KiB, bookings []Booking, want [][]topology.KiB) (spread [][]topology.KiB, full []int) {
	f := newFlow(caps, bookings)
	for i := range bookings {
		for k := range bookings[i].Nodes {
			if want != nil {
				f.put(i, k, want[i][k])
			}
		}
	}
	for i := range bookings {
		for f.left[i] > 0 {
			if z := f.augment(i); z != nil {
				return nil, z
			}
		}
	}
	return f.spread, nil
}

// flow is a maximum-flow state over the bipartite graph of bookings and nodes.
type flow struct {
	bookings []Booking
	room     []topology.KiB   // by node: what is left; unlimited when the capacity is unknown
	left     []topology.KiB   // by booking: what is not yet put anywhere
	spread   [][]topology.KiB // by booking, by position in its Nodes
	holders  [][]hold         // by node: the bookings that may lie there
	via      []hop            // by node: how the search came here
}

// hold is a booking and the position of a node among its nodes.
type hold struct{ booking, pos int }

// hop is a step of the search: booking gives up memory at position from (-1 for
// memory not yet put anywhere) to hold as much at position to.
type hop struct{ booking, from, to int }

// unlimited stands for the capacity of a node whose memory is unknown: far above
// any machine, far below what could overflow in sums.
const unlimited = topology.KiB(1) << 50

func newFlow(caps []topology.KiB, bookings []Booking) *flow {
	f := &flow{
		bookings: bookings,
		room:     slices.Clone(caps),
		left:     make([]topology.KiB, len(bookings)),
		spread:   make([][]topology.KiB, len(bookings)),
		holders:  make([][]hold, len(caps)),
		via:      make([]hop, len(caps)),
	}
	for n, c := range caps {
		if c < 0 {
			f.room[n] = unlimited
		}
	}
	for i, b := range bookings {
		f.left[i] = b.KiB
		f.spread[i] = make([]topology.KiB, len(b.Nodes))
		for k, n := range b.Nodes {
			f.holders[n] = append(f.holders[n], hold{i, k})
		}
	}
	return f
}

// put lays up to amount of booking i on its k-th node.
func (f *flow) put(i, k int, amount topology.KiB) {
	n := f.bookings[i].Nodes[k]
	amount = max(0, min(amount, f.left[i], f.room[n]))
	f.spread[i][k] += amount
	f.left[i] -= amount
	f.room[n] -= amount
}

// augment puts more of booking i by pushing others aside along a shortest
// path. It returns the nodes the search reached when there is no such path:
// none of them has room, and no booking on them may lie elsewhere.
func (f *flow) augment(i int) []int {
	for n := range f.via {
		f.via[n] = hop{booking: -1}
	}
	queue := make([]int, 0, len(f.via))
	visit := func(b, from int) {
		for k, n := range f.bookings[b].Nodes {
			if k != from && f.via[n].booking < 0 {
				f.via[n] = hop{b, from, k}
				queue = append(queue, n)
			}
		}
	}
	visit(i, -1)
	for q := 0; q < len(queue); q++ {
		n := queue[q]
		if f.room[n] > 0 {
			f.push(n)
			return nil
		}
		for _, h := range f.holders[n] {
			if f.spread[h.booking][h.pos] > 0 {
				visit(h.booking, h.pos)
			}
		}
	}
	slices.Sort(queue)
	return queue
}

// push moves the bottleneck amount along the path that ends at node end.
func (f *flow) push(end int) {
	amount := f.room[end]
	for n := end; ; {
		h := f.via[n]
		if h.from < 0 {
			amount = min(amount, f.left[h.booking])
			break
		}
		amount = min(amount, f.spread[h.booking][h.from])
		n = f.bookings[h.booking].Nodes[h.from]
	}
	f.room[end] -= amount
	for n := end; ; {
		h := f.via[n]
		f.spread[h.booking][h.to] += amount
		if h.from < 0 {
			f.left[h.booking] -= amount
			return
		}
		f.spread[h.booking][h.from] -= amount
		n = f.bookings[h.booking].Nodes[h.from]
	}
}
