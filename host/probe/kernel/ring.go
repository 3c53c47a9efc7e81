package kernel

import (
	"unsafe"

	"github.com/homenode/homenode/core/measure"
)

// PageSize is what a ring stays in before it moves on: a transparent huge page
// of amd64 and of arm64 with 4 KiB base pages.
const PageSize = 2 << 20

// A Ring is a single cycle of links over all lines of a buffer, in an order no
// prefetcher can guess:
//
//   - inside a 2 MiB page the order is random, so a page costs one miss of the
//     TLB and then none;
//   - pages come in random order;
//   - of two neighbouring lines one is visited in the first half of the cycle,
//     the other in the second, so that an adjacent-line prefetcher fetches
//     lines that are gone again before their turn.
type Ring struct {
	Mem      []byte
	segments []int // byte offset of the page of each segment; the second half repeats the pages
	starts   []int32
	chain    int // links in a segment
	page     int // bytes
}

// BuildRing links mem, whose length must be a multiple of PageSize, after the
// order that seed gives.
func BuildRing(mem []byte, seed uint64) *Ring {
	return buildRing(mem, PageSize, 2*Line, seed)
}

// BuildDenseRing is BuildRing with both lines of a pair in the same visit of a
// page: what an adjacent-line prefetcher fetches is then still there. The
// difference to BuildRing is what it hides.
func BuildDenseRing(mem []byte, seed uint64) *Ring {
	return buildRing(mem, PageSize, Line, seed)
}

// BuildSmallRing links a working set of any multiple of 4 KiB, every line, for
// levels: there a line is meant to be read again.
func BuildSmallRing(mem []byte, seed uint64) *Ring {
	page := min(PageSize, len(mem))
	return buildRing(mem[:len(mem)/page*page], page, Line, seed)
}

// distinctOrders are drawn once and used again: 16 orders of 16,384 lines are
// far beyond what a prefetcher remembers, and drawing one for each page would
// take most of the time of building.
const distinctOrders = 16

// buildRing makes one random cycle over the lines of each segment, cut open so
// that the last link of a segment leads to the next one's first line.
func buildRing(mem []byte, page, stride int, seed uint64) *Ring {
	r := measure.NewRandom(seed)
	pages := len(mem) / page
	ring := &Ring{Mem: mem, chain: page / stride, page: page}
	for half := 0; half < stride/Line; half++ {
		order := make([]int, pages)
		for i := range order {
			order[i] = i * page
		}
		measure.Shuffle(r, order)
		for _, at := range order {
			ring.segments = append(ring.segments, at+half*Line)
		}
	}
	orders := make([][]int32, min(distinctOrders, len(ring.segments)))
	for k := range orders {
		orders[k] = make([]int32, ring.chain)
		for i := range orders[k] {
			orders[k][i] = int32(i * stride)
		}
		measure.Shuffle(r, orders[k])
	}
	ring.starts = make([]int32, len(ring.segments))
	base := unsafe.Pointer(&mem[0])
	var first, last unsafe.Pointer
	for s, at := range ring.segments {
		order := orders[r.Intn(len(orders))]
		ring.starts[s] = order[0]
		head := unsafe.Add(base, at+int(order[0]))
		if s == 0 {
			first = head
		} else {
			*(*unsafe.Pointer)(last) = head
		}
		p := head
		for _, next := range order[1:] {
			q := unsafe.Add(base, at+int(next))
			*(*unsafe.Pointer)(p) = q
			p = q
		}
		last = p
	}
	*(*unsafe.Pointer)(last) = first
	return ring
}

// Links is the number of links in the cycle.
func (r *Ring) Links() int { return len(r.segments) * r.chain }

// SegmentLinks is the number of links spent in one visit of a page.
func (r *Ring) SegmentLinks() int { return r.chain }

// Segments is the number of page visits in the cycle.
func (r *Ring) Segments() int { return len(r.segments) }

// Segment is the first line of a page visit, and the page's number.
func (r *Ring) Segment(i int) (start unsafe.Pointer, page int) {
	at := r.segments[i]
	return unsafe.Add(unsafe.Pointer(&r.Mem[0]), at+int(r.starts[i])), at / r.page
}
