package place

import (
	"iter"

	"github.com/homenode/homenode/core/place/cores"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Filling fills a ledger that is empty with all that runs on a host: thousands of placements at each
// scan, nearly all of them as they were. Until Done the ledger only knows what is booked, and of no
// workload where it is.
type Filling struct {
	l     *Ledger
	slots []slot // of the workloads, rising by ID
	kept  int    // slots that Keep has filled
	put   int    // slots that Put has filled
	done  bool
}

// slot is the place of a workload in the ledger's list: one of the two, or neither.
type slot struct {
	kept *plan.Placement
	put  *holding
}

// Fill begins to fill an empty ledger with so many workloads at most. The caller numbers them by
// rising ID.
func (l *Ledger) Fill(workloads int) *Filling {
	return &Filling{l: l, slots: make([]slot, workloads)}
}

// AsBefore is what shared work on one node books as long as its placement stays as it is. Of thousands
// nearly all stay so, and those are kept in an order in which they do not lie in memory.
type AsBefore struct {
	node      int32
	vcpus     float64
	shared    cores.Micro
	reserve   cores.Micro
	kib       topology.KiB
	bandwidth int64
}

// AsBefore asks what Renew asks, but for the room: whether a placement of shared work on one node can
// stay as it is. The spec counts with the CPUs and the memory given here.
func (l *Ledger) AsBefore(old *plan.Placement, spec *workload.Spec, cpus int,
	memory topology.KiB) (b AsBefore, may bool) {
	if spec.Class != workload.Shared || !spec.Nodes.Empty() || spec.Requires() || spec.HugePage != 0 {
		return b, false
	}
	if old.Class != workload.Shared || old.Home.Len() != 1 || len(old.Memory) > 1 || old.HugePage != 0 {
		return b, false
	}
	if spec.Importance != old.Importance || max(0, spec.Bandwidth) != old.Bandwidth {
		return b, false
	}
	if !old.Caches.Empty() { // see renewCaches
		return b, false
	}
	booked := workload.Total(old.Memory)
	if max(1, cpus) != old.VCPUs || max(0, memory) != old.Asked || booked != min(old.Asked, unlimited) {
		return b, false
	}
	home := old.Home.Min()
	node := l.index(home)
	if node < 0 || (len(old.Memory) == 1 && (old.Memory[0].Node != home || booked < 0)) ||
		l.nodes[node].Given(workload.Shared) == 0 {
		return b, false
	}
	v := cores.Micro(float64(old.VCPUs) * 1e6)
	return AsBefore{
		node: int32(node), vcpus: float64(old.VCPUs), kib: booked, bandwidth: old.Bandwidth,
		shared: v, reserve: v * cores.Micro(Reserve(old.Importance)) / 100,
	}, true
}

// Keep keeps a placement as it is if there is room for what it books.
func (f *Filling) Keep(number int32, p *plan.Placement, b *AsBefore) bool {
	n := &f.l.nodes[b.node]
	if f.done || n.Open() == 0 || b.vcpus > f.l.mostShared(n)+tiny || b.kib > max(0, n.memoryFree) {
		return false
	}
	n.memoryFree -= b.kib
	n.bandwidth += b.bandwidth
	n.shared += b.shared
	n.reserve += b.reserve
	f.slots[number].kept = p
	f.kept++
	return true
}

// Fits reports whether there is room for several placements together: then Keep refuses none of
// them, whichever comes first.
func (f *Filling) Fits(all iter.Seq[*AsBefore]) bool {
	kib := make([]topology.KiB, len(f.l.nodes))
	for b := range all {
		n := &f.l.nodes[b.node]
		kib[b.node] += b.kib
		if n.Open() == 0 || b.vcpus > f.l.mostShared(n) || kib[b.node] > max(0, n.memoryFree) {
			return false
		}
	}
	return !f.done
}

// Put books a placement whether or not there is room. Where memory is short it lists what came so
// far, for wide bookings to be spread anew.
func (f *Filling) Put(number int32, p *plan.Placement) {
	l := f.l
	if f.done {
		l.Commit(*p)
		return
	}
	if len(l.arena.holdings) == 0 {
		l.arena.holdings = make([]holding, 64)
	}
	h := l.newHolding(p)
	f.slots[number].put = h
	f.put++
	l.book(h, 1)
	if l.over() {
		f.Done()
		l.settle()
	}
}

// Done makes the ledger's list of all that was kept and put, once for all.
func (f *Filling) Done() {
	if f.done {
		return
	}
	f.done = true
	l := f.l
	l.arena.holdings = make([]holding, len(f.slots))
	l.held = make([]*holding, 0, len(f.slots))
	for i := range f.slots {
		switch s := &f.slots[i]; {
		case s.kept != nil:
			l.held = append(l.held, l.newHolding(s.kept))
		case s.put != nil:
			l.held = append(l.held, s.put)
		}
	}
}

// Placements is the placements of the ledger, and was itself when it is the same: of thousands few change
// from one scan to the next.
func (f *Filling) Placements(was []plan.Placement) []plan.Placement {
	if f.allKept(was) {
		return was
	}
	f.Done()
	return f.l.placementsAs(was)
}

// allKept reports whether the placements are what they were, seen without the list of the
// ledger: all were kept, and float over the same CPUs.
func (f *Filling) allKept(was []plan.Placement) bool {
	if f.done || was == nil || f.put > 0 || f.kept != len(was) {
		return false
	}
	cpus := make([]topology.CPUSet, len(f.l.nodes))
	known := make([]bool, len(cpus))
	k := 0
	for i := range f.slots {
		p := f.slots[i].kept
		if p == nil {
			continue
		}
		n := f.l.index(p.Home.Min())
		if !known[n] {
			known[n], cpus[n] = true, f.l.cpus.ForShared([]int{n}, topology.CacheSet{})
		}
		if p != &was[k] || !cpus[n].Equal(p.CPUs) {
			return false
		}
		k++
	}
	return true
}
