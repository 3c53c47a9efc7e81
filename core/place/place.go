package place

import (
	"math"
	"slices"

	"github.com/homenode/homenode/core/place/cores"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Request asks where one workload should go.
type Request struct {
	Spec   workload.Spec
	Memory []workload.NodeMemory // where its memory lies now; nil when not running
	CPUs   topology.CPUSet       // where it may run now; empty when not running
	RanOn  []workload.NodeShare  // where its CPU time was spent; nil when unknown
	Must   bool                  // take any home that fits, also one that does not pay
	// Waited is the share of its time, 0 to 1, in which it was measured to wait for a CPU, see
	// demand.Waited. Shared work that fits a node is split for nothing else, and only when it ran on one.
	Waited float64
	// Crowd: shared work that finds no room for its vCPUs only because other shared work has
	// booked them gets a home all the same, where it crowds least. The booking is a wish:
	// the scheduler shares CPUs out whatever was booked. Memory that is booked stays so.
	Crowd bool
	// Had is the CPUs that dedicated work has of its own, those held idle among them. When it
	// shrinks or grows on its node it keeps as many of them as it can.
	Had topology.CPUSet
}

// running reports whether the request is for a workload that exists already.
func (r *Request) running() bool {
	return len(r.Memory) > 0 || len(r.RanOn) > 0 || !r.CPUs.Empty()
}

// mostly is the part of its CPU time that a workload must spend on a node for its waiting to
// be measured there.
const mostly = 0.9

// waits is the share of its time in which the workload waits for a CPU on one node, and which.
func (r *Request) waits() (float64, topology.NodeID) {
	for _, x := range r.RanOn {
		if x.Share >= mostly {
			return r.Waited, x.Node
		}
	}
	return 0, topology.None
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
	var here *holding
	var old *plan.Placement
	if i, ok := l.find(req.Spec.ID); ok {
		here = l.held[i]
		old = here.Placement
		if old.Class == workload.Dedicated && old.VCPUs != req.Spec.CPUs && req.Had.Empty() {
			req.Had = old.CPUs.Union(old.Idle)
		}
		l.Remove(req.Spec.ID)
	}
	r := choose(l, &req)
	if here != nil {
		l.putBack(here)
	}
	if !r.Placed() {
		return r
	}
	if r.Others = l.others(old, &r.Placement); len(r.Others) > 0 {
		r.Decision.Reasons = append(r.Decision.Reasons, words.Because(words.OthersFloat, len(r.Others)))
	}
	if here != nil && sameHome(r.Placement, l.placement(here)) {
		r.Decision.Outcome = plan.Kept
	}
	return r
}

func sameHome(a, b plan.Placement) bool {
	return a.Home.Equal(b.Home) && a.Class == b.Class && a.VCPUs == b.VCPUs
}

// hasSMT reports whether some core of the host has more than one thread. Policy require asks for those, as Nova's does.
func (l *Ledger) hasSMT() bool {
	return slices.ContainsFunc(l.host.Cores, func(c topology.Core) bool { return c.CPUs.Len() > 1 })
}

func choose(l *Ledger, req *Request) Result {
	w := newWant(l, req)
	l.guardBatch()
	if w.Class == workload.Dedicated && w.SMT == workload.SMTRequire && !l.hasSMT() {
		return Result{Decision: plan.Decision{Workload: w.ID, Outcome: plan.Refused,
			Reasons: words.Reasons(words.Because(words.NoSMT))}}
	}
	if !w.unmet.None() {
		return Result{Decision: plan.Decision{Workload: w.ID, Outcome: plan.Refused, Reasons: words.Reasons(w.unmet)}}
	}
	if w.Class == workload.Batch {
		return w.placeBatch(l)
	}
	w.dramFirst = true
	s := newSearch(l, &w)
	s.run()
	if len(s.top) == 0 && l.apart {
		w.dramFirst = false
		s = newSearch(l, &w)
		s.run()
	}
	if len(s.top) == 0 && w.Class == workload.Shared && (req.Crowd || w.withinRatio(l)) {
		w.dramFirst = l.apart
		r, ok := crowd(l, &w)
		if !ok && w.dramFirst {
			w.dramFirst = false
			r, ok = crowd(l, &w)
		}
		if ok {
			return r
		}
		s = newSearch(l, &w)
		s.run()
	}
	switch {
	case len(s.top) > 0:
	case len(s.declined.shares) > 0:
		return Result{Decision: s.refuseSplit()}
	default:
		return Result{Decision: s.refuse()}
	}
	p := w.realize(l, &s.top[0])
	if id, starved := l.starves(&p); starved {
		if !s.spare(id, &p) {
			return Result{Decision: s.refuseStarving(&p, id)}
		}
	}
	return Result{Placement: p, Decision: s.explain(&p)}
}

// crowd places shared work as if no other shared work had booked a CPU.
func crowd(l *Ledger, w *want) (Result, bool) {
	l.crowd = true
	defer func() { l.crowd = false }()
	s := newSearch(l, w)
	s.run()
	if len(s.top) == 0 {
		return Result{}, false
	}
	p := w.realize(l, &s.top[0])
	d := s.explain(&p)
	booked, cpus := float64(w.vcpus), 0
	for _, x := range s.top[0].shares {
		if x.vcpus > 0 {
			n := &l.nodes[x.node]
			booked, cpus = booked+n.sharedVCPUs(), cpus+n.Open()
		}
	}
	d.Reasons = slices.Insert(d.Reasons, 1, words.Because(words.HomeCrowded, booked, cpus))
	return Result{Placement: p, Decision: d}, true
}

// spare searches again with a CPU kept for batch work that the first answer
// would have starved: on each of its nodes in turn, for the best answer. It leaves
// that in s.
func (s *search) spare(id workload.ID, p *plan.Placement) bool {
	k, _ := s.l.find(id)
	h := s.l.held[k]
	best, least := -1, 0.0
	keepOn := func(i int) bool {
		n := &s.l.nodes[i]
		if n.keptForBatch || n.Free == 0 || (!h.Within.Empty() && !h.Within.Has(n.id)) {
			return false
		}
		n.keptForBatch = true
		found := newSearch(s.l, s.w).found()
		if found {
			*p = s.w.realize(s.l, &s.top[0])
			_, starved := s.l.starves(p)
			found = !starved
		}
		n.keptForBatch = false
		return found
	}
	for i := range s.l.nodes {
		if keepOn(i) && (best < 0 || s.top[0].score < least-tiny) {
			best, least = i, s.top[0].score
		}
	}
	return best >= 0 && keepOn(best)
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
func (w *want) ceiling(l *Ledger) float64 {
	if w.must || w.Class != workload.Dedicated || w.MaxNodes > 1 || l.policy.Packing == plan.Pack ||
		l.policy.Packing == plan.Spread {
		return math.Inf(1)
	}
	price := 2 - narrowCeiling
	if w.tooLarge {
		price = 2 - wideCeiling
	}
	cpus, memory := 0.0, 0.0
	for i := range l.nodes {
		cpus += float64(l.nodes[i].Usable)
		if w.eligible(l, i) {
			memory += float64(l.nodes[i].memory)
		}
	}
	if memory > 0 && w.HugePage == 0 {
		if excess := float64(w.memory)*cpus/memory/float64(w.vcpus) - 1; excess > 0 {
			price *= 1 + memoryPrice*excess
		}
	}
	return 2 - price
}

// realize turns a candidate into a placement.
func (w *want) realize(l *Ledger, c *candidate) plan.Placement {
	p := plan.Placement{
		Workload: w.ID, Class: w.Class, Importance: w.Importance, VCPUs: w.vcpus,
		Asked: max(0, w.Memory), HugePage: w.HugePage, Bandwidth: w.Bandwidth, Home: c.nodes(l),
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
		p.Pins, p.Idle = w.pins(l, c.shares)
		p.CPUs = cpuSet(p.Pins)
		p.Caches = l.cpus.CachesOf(p.CPUs, l.indices(p.Home))
		return p
	}
	home := l.indices(p.Home)
	if l.placesCaches() && !w.must { // what runs already is measured first (core/control/concern/llc)
		p.Caches = w.cachesFor(l, home)
	}
	p.CPUs = l.cpus.ForShared(home, p.Caches)
	return p
}

// pins returns the CPU of each vCPU of dedicated work, node by node, and the CPUs of its cores that no work may use.
func (w *want) pins(l *Ledger, shares []share) (pins []topology.CPUID, idle topology.CPUSet) {
	pins = make([]topology.CPUID, 0, w.vcpus)
	for _, s := range shares {
		if s.vcpus == 0 {
			continue
		}
		n := &l.nodes[s.node]
		all, held := l.cpus.Choose(pins, s.node, cores.Wish{
			VCPUs: int(s.vcpus), Spare: n.Free - l.keep(n), SMT: w.SMT, Importance: w.Importance, Had: &w.had,
		})
		pins = all
		for _, cpu := range held {
			idle.Add(cpu)
		}
	}
	return pins, idle
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

// placeBatch gives what no dedicated work holds. Memory is booked only when
// its size is given: where most is free, for that is where nobody needs it.
func (w *want) placeBatch(l *Ledger) Result {
	p := plan.Placement{
		Workload: w.ID, Class: w.Class, Importance: w.Importance, VCPUs: w.vcpus, Within: w.Nodes.Clone(),
		Asked: max(0, w.Memory), HugePage: w.HugePage, Bandwidth: w.Bandwidth,
	}
	p.CPUs, p.Home = l.batchCPUs(&p)
	left := w.memory
	booked := make([]topology.KiB, len(l.nodes))
	w.dramFirst = true
	for left > 0 {
		best := -1
		for i := range l.nodes {
			if room := w.memoryRoom(l, i); booked[i] == 0 && room > 0 && (best < 0 || room > w.memoryRoom(l, best)) {
				best = i
			}
		}
		if best < 0 && w.dramFirst {
			w.dramFirst = false
			continue
		}
		if best < 0 {
			break
		}
		booked[best] = min(left, w.memoryRoom(l, best))
		left -= booked[best]
	}
	if p.CPUs.Empty() || left > 0 {
		return Result{Decision: newSearch(l, w).refuse()}
	}
	for i, m := range booked {
		if m > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: l.nodes[i].id, KiB: m})
			p.Home.Add(l.nodes[i].id)
		}
	}
	return Result{Placement: p, Decision: explainBatch(&p)}
}
