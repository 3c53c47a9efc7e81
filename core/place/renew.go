package place

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Renew returns a placement that is not in the ledger brought up to date with what is requested now, the
// old one when it is that, or why it cannot be kept. Without a request it asks whether the placement still
// holds. The CPUs of what floats are found when all is placed (see Placements).
func (l *Ledger) Renew(old *plan.Placement, req *Request) (*plan.Placement, words.Reason) {
	if req == nil {
		req = &Request{Spec: specOf(old)}
	}
	p, why := l.renew(old, req)
	if !why.None() || (p.Class != workload.Batch && p.Importance == old.Importance && p.VCPUs == old.VCPUs &&
		p.Bandwidth == old.Bandwidth &&
		p.HugePage == old.HugePage && p.Asked == old.Asked && sameMemory(p.Memory, old.Memory) &&
		p.Caches.Equal(old.Caches)) {
		return old, why
	}
	return new(p), why
}

// Rest returns what dedicated work still holds of a placement that cannot be kept whole, as after
// CPUs went offline: its CPUs but those that it may no longer have, and its memory when that
// still fits. It returns nil when nothing is left, and for work without CPUs of its own.
func (l *Ledger) Rest(old *plan.Placement) *plan.Placement {
	p := *old
	p.Home = l.ids(l.indices(old.Home))
	if p.Class != workload.Dedicated || p.Home.Empty() {
		return nil
	}
	may := func(cpu topology.CPUID) bool {
		if l.cpus.Taken(cpu) || !p.Home.Has(l.nodes[l.cpus.NodeOf(cpu)].id) {
			return false
		}
		return !l.policy.Split || l.policy.Dedicated.Has(cpu)
	}
	p.Pins, p.Idle = nil, topology.CPUSet{}
	for _, cpu := range old.Pins {
		if may(cpu) {
			p.Pins = append(p.Pins, cpu)
		}
	}
	for cpu := range old.Idle.All() {
		if may(cpu) {
			p.Idle.Add(cpu)
		}
	}
	p.CPUs, p.VCPUs = topology.CPUs(p.Pins...), len(p.Pins)
	w := l.wantOf(&Request{Spec: specOf(&p)})
	if !w.booksFit(l, &p) {
		p.Memory, p.Asked = nil, 0
	}
	if p.CPUs.Empty() && len(p.Memory) == 0 {
		return nil
	}
	return &p
}

func sameMemory(a, b []workload.NodeMemory) bool {
	return slices.Equal(a, b) && (a == nil) == (b == nil)
}

func (l *Ledger) renew(old *plan.Placement, req *Request) (plan.Placement, words.Reason) {
	l.renewed = l.wantOf(req)
	w, p := &l.renewed, *old
	p.Importance = w.Importance
	p.VCPUs = w.vcpus
	p.Bandwidth = w.Bandwidth
	if p.Class != w.Class {
		return p, words.Because(words.ClassChanged, p.Class, w.Class)
	}
	if w.Class == workload.Batch {
		return w.renewBatch(l, p)
	}
	home := l.renewing[:0]
	defer func() { l.renewing = home }()
	for n := range p.Home.All() {
		i := l.index(n)
		if i < 0 {
			return p, words.Because(words.NodeGone, n)
		}
		if !w.eligible(l, i) {
			return p, words.Because(words.NodeForbidden, n)
		}
		home = append(home, i)
	}
	if len(home) == 0 || (w.MaxNodes > 0 && len(home) > w.MaxNodes) {
		return p, words.Because(words.NodesTooMany, w.MaxNodes)
	}
	if !w.unmet.None() {
		return p, words.Because(words.RequiredLost, w.unmet)
	}
	for _, r := range w.required {
		if !p.Home.Intersects(r.At) {
			return p, words.Because(words.RequiredThere, r.At, r.Name)
		}
	}
	if len(home) < w.MinNodes && w.ForGPUs {
		return p, words.Because(words.GPUsOnNodes, w.Nodes)
	}
	if len(home) < w.MinNodes {
		return p, words.Because(words.NodesTooFew, w.MinNodes)
	}
	if why := w.renewCPUs(l, &p, home); !why.None() {
		return p, why
	}
	if w.Class == workload.Shared {
		w.renewCaches(l, &p, home)
	}
	return p, w.renewMemory(l, &p, home, req)
}

// renewBatch keeps the memory of batch work where it was booked; its CPUs are
// whatever is free.
func (w *want) renewBatch(l *Ledger, p plan.Placement) (plan.Placement, words.Reason) {
	w.confine(l)
	r := w.placeBatch(l)
	if !r.Placed() {
		return p, words.Because(words.NothingLeft)
	}
	n := r.Placement
	n.Start = p.Start
	if n.Asked == p.Asked && n.HugePage == p.HugePage && w.booksFit(l, &p) {
		n.Memory = p.Memory
		n.CPUs, n.Home = l.batchCPUs(&n)
	}
	return n, words.Reason{}
}

// renewCPUs checks the CPUs of a placement against what is free.
func (w *want) renewCPUs(l *Ledger, p *plan.Placement, home []int) words.Reason {
	if w.Class == workload.Dedicated {
		if len(p.Pins) != w.vcpus {
			return words.Because(words.CPUsChanged, len(p.Pins), w.vcpus)
		}
		for cpu := range p.CPUs.Union(p.Idle).All() {
			node := l.cpus.NodeOf(cpu)
			switch {
			case node < 0:
				return words.Because(words.CPUOffline, cpu)
			case l.policy.Split && !l.policy.Dedicated.Has(cpu):
				return words.Because(words.CPUOfShared, cpu)
			case l.cpus.Taken(cpu):
				return words.Because(words.CPUTaken, cpu)
			case !p.Home.Has(l.nodes[node].id):
				return words.Because(words.CPUElsewhere, cpu)
			}
		}
		return words.Reason{}
	}
	var why words.Reason
	vcpus := 0
	l.eachShare(home, func(i int, share float64) {
		n := &l.nodes[i]
		vcpus++
		v := share * float64(w.vcpus)
		if why.None() && (n.Open() == 0 || v > l.mostShared(n)+tiny) { // what others have booked ends no home
			why = words.Because(words.NodeCrowded, n.id, n.Open(), v)
		}
	})
	if vcpus == 0 {
		return words.Because(words.NoCPUOnline)
	}
	return why
}

// renewMemory books the memory requested now on the home, or failing that what is
// resident: headroom is no reason to move.
func (w *want) renewMemory(l *Ledger, p *plan.Placement, home []int, req *Request) words.Reason {
	p.HugePage = w.HugePage
	if p.Asked == max(0, w.Memory) && w.booksFit(l, p) {
		return words.Reason{}
	}
	w.residence = residence(l, req)
	for _, asked := range []topology.KiB{max(0, w.Memory), workload.Total(req.Memory)} {
		if asked > max(0, w.Memory) {
			continue
		}
		memory := plan.RoundUp(min(asked, unlimited), w.HugePage)
		if mem, ok := w.bookOn(l, p, home, memory); ok {
			p.Asked, p.Memory = asked, mem
			return words.Reason{}
		}
	}
	room := topology.KiB(0)
	for _, i := range home {
		room += w.memoryRoom(l, i)
	}
	return words.Because(words.MemoryShort, room, w.memory)
}

// booksFit reports whether the bookings of p fit as they are.
func (w *want) booksFit(l *Ledger, p *plan.Placement) bool {
	for _, m := range p.Memory {
		if i := l.index(m.Node); i < 0 || (p.Class != workload.Batch && !p.Home.Has(m.Node)) ||
			m.KiB > w.memoryRoom(l, i) {
			return false
		}
	}
	return workload.Total(p.Memory) == w.memory
}

// bookOn books memory on the home: where it lies already, then where it was
// booked, then on the nodes with most room.
func (w *want) bookOn(l *Ledger, p *plan.Placement, home []int, memory topology.KiB) ([]workload.NodeMemory, bool) {
	page := max(1, w.HugePage)
	booked := make([]topology.KiB, len(home))
	left := memory
	put := func(k int, wish topology.KiB) {
		x := max(0, min(wish/page*page, w.memoryRoom(l, home[k])-booked[k], left))
		booked[k] += x
		left -= x
	}
	for k, i := range home {
		if w.residence != nil {
			put(k, topology.KiB(w.residence[i]*float64(memory)))
		}
	}
	for k, i := range home {
		put(k, workload.On(p.Memory, topology.Nodes(l.nodes[i].id))-booked[k])
	}
	for range home {
		best := 0
		for k, i := range home {
			if w.memoryRoom(l, i)-booked[k] > w.memoryRoom(l, home[best])-booked[best] {
				best = k
			}
		}
		put(best, left)
	}
	if left > 0 {
		return nil, false
	}
	var mem []workload.NodeMemory
	for k, i := range home {
		if booked[k] > 0 {
			mem = append(mem, workload.NodeMemory{Node: l.nodes[i].id, KiB: booked[k]})
		}
	}
	return mem, true
}
