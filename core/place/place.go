package place

import (
	"math"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Request asks where one workload should go.
type Request struct {
	Spec   workload.Spec
	Memory []workload.NodeMemory // where its memory lies now; nil when not running
	CPUs   topology.CPUSet       // where it may run now; empty when not running
	RanOn  []workload.NodeShare  // where its CPU time was spent; nil when unknown
	Must   bool                  // take any home that fits, also one that does not pay
}

// running reports whether the request is for a workload that exists already.
func (r *Request) running() bool {
	return len(r.Memory) > 0 || len(r.RanOn) > 0 || !r.CPUs.Empty()
}

// Result is the answer: the placement, why, and what becomes of others.
type Result struct {
	Placement plan.Placement // zero unless Decision.Outcome is Placed or Kept
	Decision  plan.Decision
	Others    []plan.Placement // placements of other workloads whose CPU set changes by this one, rising by ID
}

// Placed reports whether the workload has a placement.
func (r Result) Placed() bool {
	return r.Decision.Outcome == plan.Placed || r.Decision.Outcome == plan.Kept
}

// Place finds a home for one workload on a host in a given state. A placement
// that the state already has for it is taken as where it is now, not as taken.
func Place(st plan.State, req Request) Result {
	return NewLedger(st).Place(req)
}

// Place finds a home for one workload. It changes nothing that can be seen; the
// answer holds until the next Commit or Remove. A ledger is for one goroutine.
func (l *Ledger) Place(req Request) Result {
	i, here := l.find(req.Spec.ID)
	if !here {
		r := l.choose(&req)
		if r.Placed() {
			r.Others = l.others(nil, &r.Placement)
			l.explainOthers(&r)
		}
		return r
	}
	old := l.held[i]
	l.Remove(req.Spec.ID)
	r := l.choose(&req)
	l.held = slices.Insert(l.held, i, old)
	l.book(l.held[i], 1)
	if r.Placed() {
		r.Others = l.others(&old.Placement, &r.Placement)
		l.explainOthers(&r)
		if sameHome(r.Placement, l.placement(l.held[i])) {
			r.Decision.Outcome = plan.Kept
		}
	}
	return r
}

func sameHome(a, b plan.Placement) bool {
	return a.Home.Equal(b.Home) && a.Class == b.Class && a.VCPUs == b.VCPUs
}

func (l *Ledger) choose(req *Request) Result {
	w := l.newWant(req)
	l.guardOffline()
	if w.Class == workload.Offline {
		return l.placeOffline(&w)
	}
	s := l.newSearch(&w)
	s.run()
	switch {
	case len(s.top) > 0:
	case len(s.declined.shares) > 0:
		return Result{Decision: l.refuseSplit(&w, s)}
	default:
		return Result{Decision: l.refuse(&w, s)}
	}
	p := l.realize(&w, &s.top[0])
	if id, starved := l.starves(&p); starved {
		if !l.spare(&w, s, id, &p) {
			return Result{Decision: l.refuseStarving(&w, &p, id)}
		}
	}
	return Result{Placement: p, Decision: l.explain(&w, s, &p)}
}

// spare searches again with a CPU kept for offline work that the first answer
// would have starved: on each of its nodes in turn, for the best answer. It leaves
// that in s.
func (l *Ledger) spare(w *want, s *search, id workload.ID, p *plan.Placement) bool {
	k, _ := l.find(id)
	h := l.held[k]
	best, least := -1, 0.0
	keepOn := func(i int) bool {
		n := &l.nodes[i]
		if n.lastForOffline || n.free == 0 || !h.Within.Empty() && !h.Within.Has(n.id) {
			return false
		}
		n.lastForOffline = true
		found := l.newSearch(w).found()
		if found {
			*p = l.realize(w, &s.top[0])
			_, starved := l.starves(p)
			found = !starved
		}
		n.lastForOffline = false
		return found
	}
	for i := range l.nodes {
		if keepOn(i) && (best < 0 || s.top[0].score < least-tiny) {
			best, least = i, s.top[0].score
		}
	}
	return best >= 0 && keepOn(best)
}

// starves finds an offline workload that a dedicated placement would leave no CPU.
func (l *Ledger) starves(p *plan.Placement) (workload.ID, bool) {
	if p.Class != workload.Dedicated {
		return "", false
	}
	var starved workload.ID
	found := false
	l.floaters(p.Home, func(h *holding) {
		if h.Class != workload.Offline || found {
			return
		}
		free := 0
		for i := range l.nodes {
			if h.Within.Empty() || h.Within.Has(l.nodes[i].id) {
				free += l.nodes[i].idle()
			}
		}
		for _, cpu := range p.Pins {
			if n := l.nodes[l.cores[l.coreAt[cpu]].node].id; h.Within.Empty() || h.Within.Has(n) {
				free--
			}
		}
		for cpu := range p.Idle.All() {
			if n := l.nodes[l.cores[l.coreAt[cpu]].node].id; h.Within.Empty() || h.Within.Has(n) {
				free--
			}
		}
		if free <= 0 {
			starved, found = h.Workload, true
		}
	})
	return starved, found
}

const (
	// narrowCeiling is the highest access cost at which a dedicated workload that
	// would fit one node, were that node empty, is taken in parts. It holds its
	// CPUs for as long as a local workload would, which may come and be refused for
	// it: over many traces (bench/placement) what is gained by taking it and what is
	// lost by wasting CPUs are in balance here, and flat around.
	narrowCeiling = 1.35

	// wideCeiling is the same for a workload that no node could ever hold: it has
	// nothing to wait for.
	wideCeiling = 1.65

	// memoryPrice is what memory beyond a workload's share of the host counts, in
	// the CPUs that it leaves without memory.
	memoryPrice = 0.2
)

// ceiling is the access cost up to which a split of the workload pays. Only a new
// dedicated workload is ever turned away for cost: others share what they get.
//
// A vCPU is worth 2 - cost: all at home, nothing at twice the local cost. Its
// price is the CPUs it takes, and those it leaves without memory by taking more
// than its share.
func (l *Ledger) ceiling(w *want) float64 {
	if w.must || w.Class != workload.Dedicated || w.MaxNodes > 1 || l.policy.Packing == plan.Pack || l.policy.Packing == plan.Spread {
		return math.Inf(1)
	}
	price := 2 - narrowCeiling
	if w.wide {
		price = 2 - wideCeiling
	}
	cpus, memory := 0.0, 0.0
	for i := range l.nodes {
		cpus += float64(l.nodes[i].usable)
		memory += float64(l.nodes[i].memory)
	}
	if memory > 0 && w.HugePage == 0 {
		if excess := float64(w.memory)*cpus/memory/float64(w.vcpus) - 1; excess > 0 {
			price *= 1 + memoryPrice*excess
		}
	}
	return 2 - price
}

// realize turns a candidate into a placement.
func (l *Ledger) realize(w *want, c *candidate) plan.Placement {
	p := plan.Placement{
		Workload: w.ID, Class: w.Class, Importance: w.Importance, VCPUs: w.vcpus,
		Asked: max(0, w.Memory), HugePage: w.HugePage, Bandwidth: w.Bandwidth,
	}
	for _, s := range slices.Backward(c.shares) {
		p.Home.Add(l.nodes[s.node].id)
	}
	hasMemory := false
	for _, s := range c.shares {
		hasMemory = hasMemory || l.nodes[s.node].memory > 0
		if s.memory > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: l.nodes[s.node].id, KiB: s.memory})
		}
	}
	if w.Class == workload.Dedicated {
		p.Bound = hasMemory
		p.Pins, p.Idle = l.pins(w, c.shares)
		p.CPUs = cpuSet(p.Pins)
		return p
	}
	home := make([]int, len(c.shares))
	for k, s := range c.shares {
		home[k] = s.node
	}
	p.CPUs = l.floating(home, w.Class)
	return p
}

// cpuSet is a set of CPUs; the highest goes in first, so that it is sized once.
func cpuSet(cpus []topology.CPUID) topology.CPUSet {
	var s topology.CPUSet
	if len(cpus) > 0 {
		s.Add(slices.Max(cpus))
	}
	for _, cpu := range cpus {
		s.Add(cpu)
	}
	return s
}

// placeOffline gives what no dedicated work holds. Memory is booked only when
// its size is given: where most is free, for that is where nobody needs it.
func (l *Ledger) placeOffline(w *want) Result {
	p := plan.Placement{
		Workload: w.ID, Class: w.Class, Importance: w.Importance, VCPUs: w.vcpus, Within: w.Nodes.Clone(),
		Asked: max(0, w.Memory), HugePage: w.HugePage, Bandwidth: w.Bandwidth,
	}
	p.CPUs, p.Home = l.offlineCPUs(&p)
	left := w.memory
	booked := make([]topology.KiB, len(l.nodes))
	for left > 0 {
		best := -1
		for i := range l.nodes {
			if room := l.memoryRoom(w, i); booked[i] == 0 && room > 0 && (best < 0 || room > l.memoryRoom(w, best)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		booked[best] = min(left, l.memoryRoom(w, best))
		left -= booked[best]
	}
	if p.CPUs.Empty() || left > 0 {
		return Result{Decision: l.refuse(w, l.newSearch(w))}
	}
	for i, m := range booked {
		if m > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: l.nodes[i].id, KiB: m})
			p.Home.Add(l.nodes[i].id)
		}
	}
	return Result{Placement: p, Decision: l.explainOffline(&p)}
}

// floaters calls yield for every held workload that floats on CPUs of the given nodes.
func (l *Ledger) floaters(nodes topology.NodeSet, yield func(h *holding)) {
	for i := range l.held {
		h := l.held[i]
		switch h.Class {
		case workload.Shared:
			if h.Home.Intersects(nodes) {
				yield(h)
			}
		case workload.Offline:
			if h.Within.Empty() || h.Within.Intersects(nodes) {
				yield(h)
			}
		}
	}
}

// holdAll counts a dedicated placement's CPUs as held (sign 1) or no longer.
func (l *Ledger) holdAll(p *plan.Placement, sign int) {
	for cpu := range p.CPUs.All() {
		l.hold(cpu, sign)
	}
	for cpu := range p.Idle.All() {
		l.hold(cpu, sign)
	}
}

// others is what becomes of the workloads that float on CPUs which a placement
// takes or which it, having been elsewhere before, gives back. old is in the
// ledger, p is not.
func (l *Ledger) others(old, p *plan.Placement) []plan.Placement {
	takes, gives := p.Class == workload.Dedicated, old != nil && old.Class == workload.Dedicated
	var nodes topology.NodeSet
	if takes {
		nodes = p.Home
	}
	if gives {
		nodes = nodes.Union(old.Home)
	}
	var before []plan.Placement
	l.floaters(nodes, func(h *holding) {
		if h.Workload != p.Workload {
			before = append(before, l.placement(h))
		}
	})
	if before == nil {
		return nil
	}
	turn := func(sign int) {
		if gives {
			l.holdAll(old, -sign)
		}
		if takes {
			l.holdAll(p, sign)
		}
	}
	turn(1)
	var out []plan.Placement
	k := 0
	l.floaters(nodes, func(h *holding) {
		if h.Workload == p.Workload {
			return
		}
		if after := l.placement(h); !after.CPUs.Equal(before[k].CPUs) || !after.Home.Equal(before[k].Home) {
			out = append(out, after)
		}
		k++
	})
	turn(-1)
	return out
}
