package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Runner is a running workload in the eyes of a repack.
type Runner struct {
	Spec workload.Spec // what it wants, as it was placed; ID is that of its placement
	Stay string        // why it must not move, a sentence; "" when it may
}

// RepackOptions say what a repack may do. The zero value lets nothing move.
type RepackOptions struct {
	Running []Runner // what may move; a placement that is not listed stays
	Moves   int      // most moves; 0 means DefaultMoves
	Steps   int      // search steps, a few microseconds each; 0 means DefaultSteps
	Access  float64  // highest mean access cost that will do, local being 1; 0 takes what Place takes
}

const (
	// DefaultMoves is the most moves a repack looks for: whoever has to move more than
	// that for one workload rather wants another host.
	DefaultMoves = 8

	// DefaultSteps is about half a second of search on a host of 8 nodes.
	DefaultSteps = 100_000
)

// Move is one workload that goes to other CPUs or memory nodes.
type Move struct {
	Workload  workload.ID
	From, To  plan.Placement
	KiB       topology.KiB // of its memory that changes node; never more than it has
	Temporary bool         // it only steps aside, and moves again
	Before    float64      // mean access cost, local being 1
	After     float64
	Reasons   []words.Reason
}

// Repacking is which moves admit a workload, and what is known about fewer.
type Repacking struct {
	Result  Result       // where the workload goes once all moves are done, or why nowhere
	Moves   []Move       // in the order to make; every state on the way passes plan.Check
	KiB     topology.KiB // sum of the moves
	AtLeast int          // no plan admits it with fewer moves; proven, whatever the search did
	Whole   bool         // all plans of fewer moves that keep what moves on one node each were tried
	CutOff  bool         // the steps ran out
	Steps   int          // taken
	Worse   []Worsening  // what becomes worse for whom, all moves made and the workload placed
	Reasons []words.Reason
}

// Admitted reports whether the workload gets a place.
func (r *Repacking) Admitted() bool { return r.Result.Placed() }

// Repack finds the fewest moves of running workloads after which the requested
// one fits; of those the moves of least memory, then of the least important, then the
// best in score. The ledger is left as it is.
//
// It deepens: all plans of one move, then of two, and so on. A plan seats the
// new workload on a node and evicts who is in the way; those are seated in the same
// manner. What is evicted goes to one node; only what no node could ever hold may
// be split. Then the moves are put in an order in which each finds its room free,
// with a step aside where they would wait for each other in a circle.
func (l *Ledger) Repack(req Request, opt RepackOptions) Repacking {
	r := newRepack(l, req, opt)
	out := Repacking{Result: l.Place(req)}
	if out.Result.Placed() && r.good(l, &out.Result.Placement) {
		out.Whole = true
		out.Worse = worsened(l, r.after(nil, &out.Result.Placement), opt.Running)
		out.Reasons = words.Reasons(words.Because(words.FitsNow))
		return out
	}
	if req.Spec.Class == workload.Batch {
		out.Reasons = words.Reasons(words.Because(words.BatchNoMoves))
		return r.refused(out)
	}
	if why := r.impossible(); !why.None() {
		out.Whole = true
		out.Reasons = words.Reasons(why)
		return r.refused(out)
	}
	out.AtLeast = max(1, r.fewest())
	if out.Result.Placed() && r.opt.Access > 1+tiny {
		out.AtLeast = 0 // another division may be near enough as things are: Place weighs more than distance
	}
	destinations := r.destinations(&r.want)
	r.deepen(&out, func() { r.admit(destinations) })
	out.Steps = r.opt.Steps - r.left
	if r.best == nil {
		return r.refused(out)
	}
	out.Result = r.best.result
	out.Moves = r.best.moves
	out.KiB = r.best.kib
	out.Worse = worsened(l, r.after(out.Moves, &out.Result.Placement), opt.Running)
	r.explain(&out)
	return out
}

// refused leaves out a result that is not good enough.
func (r *repack) refused(out Repacking) Repacking {
	if out.Result.Placed() {
		out.Result.Placement, out.Result.Others = plan.Placement{}, nil
		out.Result.Decision.Outcome = plan.Refused
	}
	r.explain(&out)
	return out
}

// repack is one search for moves.
type repack struct {
	start   *Ledger // as it is
	l       *Ledger // the trial: without the evicted, with the seated
	req     Request
	want    want
	opt     RepackOptions
	movers  []mover
	waiting []int // evicted and not seated
	seated  []seat
	kib     topology.KiB // moved by what is seated
	left    int          // steps
	cut     bool         // the steps ran out
	dive    bool         // take the first solution
	level   int          // most moves now
	best    *solution

	accepts func(s *solution) bool // whether a solution will do; nil for all
	self    int                    // the mover that is brought home; -1 when a new workload is admitted
}

// mover is a workload that may move.
type mover struct {
	want   want
	held   *holding       // at the start
	cpus   []float64      // by node: CPUs, or of shared work vCPUs, that it holds
	memory []topology.KiB // by node
	access float64
	out    bool // evicted, or seated elsewhere
}

// seat is a mover with its new place.
type seat struct {
	who    int
	shares []share
	p      plan.Placement
}

// solution is a plan that works.
type solution struct {
	moves  []Move
	kib    topology.KiB
	weight int // importance of what moves
	score  float64
	result Result
}

func (s *solution) better(than *solution) bool {
	if than == nil {
		return true
	}
	return cmp.Or(cmp.Compare(len(s.moves), len(than.moves)), cmp.Compare(s.kib, than.kib),
		cmp.Compare(s.weight, than.weight), cmp.Compare(s.score, than.score-tiny)) < 0
}

func newRepack(l *Ledger, req Request, opt RepackOptions) *repack {
	if opt.Moves <= 0 {
		opt.Moves = DefaultMoves
	}
	if opt.Steps <= 0 {
		opt.Steps = DefaultSteps
	}
	r := &repack{start: l, l: l.clone(), req: req, opt: opt, left: opt.Steps, self: -1}
	r.l.Remove(req.Spec.ID)
	r.l.guardBatch()
	r.want = newWant(r.l, &req)
	for i := range opt.Running {
		run := &opt.Running[i]
		k, ok := l.find(run.Spec.ID)
		if !ok || run.Stay != "" || run.Spec.ID == req.Spec.ID || l.held[k].Class == workload.Batch {
			continue
		}
		r.movers = append(r.movers, newMover(l, &run.Spec, l.held[k]))
	}
	slices.SortFunc(r.movers, func(a, b mover) int { return cmp.Compare(a.held.Workload, b.held.Workload) })
	r.movers = slices.CompactFunc(r.movers, func(a, b mover) bool { return a.held.Workload == b.held.Workload })
	return r
}

func newMover(l *Ledger, spec *workload.Spec, h *holding) mover {
	s := *spec
	// What it holds, it goes on to hold.
	s.Class = h.Class
	s.CPUs = h.VCPUs
	s.Memory = h.Asked
	s.HugePage = h.HugePage
	m := mover{want: newWant(l, &Request{Spec: s, Must: true}), held: h}
	m.cpus, m.memory = make([]float64, len(l.nodes)), make([]topology.KiB, len(l.nodes))
	for _, x := range l.sharesOf(h) {
		m.cpus[x.node], m.memory[x.node] = x.vcpus, x.memory
	}
	if h.Class == workload.Dedicated {
		for cpu := range h.Idle.All() {
			if i := l.cpus.NodeOf(cpu); i >= 0 {
				m.cpus[i]++
			}
		}
	}
	m.access = l.accessNow(h)
	return m
}

// good reports whether a placement is near enough.
func (r *repack) good(l *Ledger, p *plan.Placement) bool {
	return r.opt.Access <= 0 || l.Access(p) <= r.opt.Access+tiny
}

// deepen tries plans of one move more at a time. When the steps run out before
// one is found, the last quarter of them goes straight down.
func (r *repack) deepen(out *Repacking, try func()) {
	kept := r.opt.Steps / 4
	r.left -= kept
	exact := r.exact()
	out.Whole = true
	for r.level = max(1, out.AtLeast); r.level <= r.opt.Moves; r.level++ {
		try()
		if r.best != nil {
			break
		}
		if r.cut {
			out.Whole = false
			break
		}
		if exact {
			out.AtLeast = r.level + 1
		}
	}
	out.CutOff = r.cut
	r.left = max(0, r.left) + kept
	if r.best == nil && r.cut {
		r.cut = false
		r.dive = true
		r.level = r.opt.Moves
		try()
	}
	r.left = max(0, r.left)
}

// exact reports whether the search sees all plans there are: when nothing may be
// split and single CPUs do not matter.
func (r *repack) exact() bool {
	whole := func(w *want) bool { return w.MaxNodes == 1 && w.SMT == workload.SMTPrefer }
	for i := range r.movers {
		if m := &r.movers[i]; !whole(&m.want) || len(m.held.home) != 1 {
			return false
		}
	}
	for i := range r.start.held {
		if r.start.held[i].Class == workload.Batch { // it needs a CPU somewhere, see guardBatch
			return false
		}
	}
	return whole(&r.want)
}

// admit seats the new workload in all ways.
func (r *repack) admit(destinations [][]share) {
	for _, shares := range destinations {
		r.seat(-1, shares, r.level, -1, nil)
	}
}

// step counts one step and reports whether to go on.
func (r *repack) step() bool {
	if r.dive && r.best != nil {
		return false
	}
	if r.left <= 0 {
		r.cut = true
		return false
	}
	r.left--
	return true
}

func (r *repack) wantOf(who int) *want {
	if who < 0 {
		return &r.want
	}
	return &r.movers[who].want
}

// seat puts a workload on its nodes. Where there is no room it evicts movers, k at
// most, in all ways that make room on the first node that is short. at is the position
// of that node so far; the movers there that may still be evicted are in there.
func (r *repack) seat(who int, shares []share, k, at int, there []int) {
	if !r.step() {
		return
	}
	w := r.wantOf(who)
	short := slices.IndexFunc(shares, func(s share) bool { return !w.fits(r.l, s) })
	if short < 0 {
		r.take(who, shares, k)
		return
	}
	if k == 0 || !r.covers(w, shares[short], k) {
		return
	}
	if short != at {
		there = r.there(w, shares[short])
	}
	for i, j := range there {
		if r.movers[j].out || r.interchangeable(j, there[:i], shares[short].node) {
			continue
		}
		r.evict(j)
		r.seat(who, shares, k-1, short, there[i+1:])
		r.readmit(j)
	}
}

// there is the movers that hold something of a node, those first whose leaving
// makes most of the room that a share lacks.
func (r *repack) there(w *want, s share) []int {
	cpus := s.vcpus - float64(w.cpuRoom(r.l, s.node))
	mem := float64(s.memory - w.memoryRoom(r.l, s.node))
	var out []int
	for j := range r.movers {
		if m := &r.movers[j]; !m.out && (m.cpus[s.node] > 0 || m.memory[s.node] > 0) {
			out = append(out, j)
		}
	}
	part := func(j int) float64 {
		sum, m := 0.0, &r.movers[j]
		if cpus > 0 {
			sum += min(1, m.cpus[s.node]/cpus)
		}
		if mem > 0 && m.held.HugePage == w.HugePage {
			sum += min(1, float64(m.memory[s.node])/mem)
		}
		return sum
	}
	slices.SortStableFunc(out, func(a, b int) int { return -cmp.Compare(part(a), part(b)) })
	return out
}

// take books a workload where there is room, and goes on with who waits.
func (r *repack) take(who int, shares []share, k int) {
	w := r.wantOf(who)
	p := w.realize(r.l, &candidate{shares: shares})
	moved := topology.KiB(0)
	if who >= 0 {
		old := r.movers[who].held
		if sameSeat(old.Placement, &p) {
			return
		}
		moved = movedKiB(old.Placement.Memory, p.Memory)
	}
	r.kib += moved
	if r.best == nil || r.kib <= r.best.kib {
		r.l.add(&p)
		r.seated = append(r.seated, seat{who, shares, p})
		r.next(k)
		r.seated = r.seated[:len(r.seated)-1]
		r.l.Remove(p.Workload)
	}
	r.kib -= moved
}

// sameSeat reports whether two placements are no move apart.
func sameSeat(a, b *plan.Placement) bool {
	return a.Home.Equal(b.Home) && (a.Class == workload.Shared || a.CPUs.Equal(b.CPUs)) &&
		movedKiB(a.Memory, b.Memory) == 0
}

// movedKiB is the memory that lies on other nodes after than before.
func movedKiB(before, after []workload.NodeMemory) topology.KiB {
	sum := topology.KiB(0)
	for _, m := range after {
		sum += max(0, m.KiB-workload.On(before, topology.Nodes(m.Node)))
	}
	return sum
}

func (r *repack) evict(j int) {
	r.l.Remove(r.movers[j].held.Workload)
	r.movers[j].out = true
	r.waiting = append(r.waiting, j)
}

func (r *repack) readmit(j int) {
	r.waiting = r.waiting[:len(r.waiting)-1]
	r.movers[j].out = false
	r.l.putBack(r.movers[j].held)
}

// next seats the last evicted in all ways, or has a plan when nobody waits.
func (r *repack) next(k int) {
	n := len(r.waiting)
	if n == 0 {
		r.finish()
		return
	}
	who := r.waiting[n-1]
	r.waiting = r.waiting[:n-1]
	for _, shares := range r.places(who) {
		r.seat(who, shares, k, -1, nil)
	}
	r.waiting = append(r.waiting[:n-1], who)
}

// places is where an evicted workload may go: single nodes, those with room first
// and of them the tightest; for one that no node holds, what Place finds.
func (r *repack) places(who int) [][]share {
	m := &r.movers[who]
	w := &m.want
	if w.tooLarge {
		s := newSearch(r.l, w)
		s.run()
		var out [][]share
		for i := range s.top {
			if s.top[i].access <= m.access+tiny {
				out = append(out, slices.Clone(s.top[i].shares))
			}
		}
		return out
	}
	type place struct {
		node  int
		short float64
		spare float64
	}
	var on []place
	for i := range r.l.nodes {
		if !w.eligible(r.l, i) || r.l.nodes[i].Given(w.Class) < 1 {
			continue
		}
		if len(m.held.home) == 1 && m.held.home[0] == i && w.SMT == workload.SMTPrefer &&
			r.want.SMT == workload.SMTPrefer {
			continue // other CPUs of the same node help nobody
		}
		x := place{node: i}
		spare := float64(w.cpuRoom(r.l, i)-w.vcpus) / float64(w.vcpus)
		if w.memory > 0 {
			free := float64(w.memoryRoom(r.l, i)-w.memory) / float64(w.memory)
			x.short = max(0, -free)
			spare += free
		}
		x.short += max(0, float64(w.vcpus-w.cpuRoom(r.l, i))/float64(w.vcpus))
		x.spare = spare
		on = append(on, x)
	}
	slices.SortStableFunc(on,
		func(a, b place) int { return cmp.Or(cmp.Compare(a.short, b.short), cmp.Compare(a.spare, b.spare)) })
	out := make([][]share, len(on))
	for i, x := range on {
		out[i] = []share{{x.node, float64(w.vcpus), w.memory}}
	}
	return out
}

// interchangeable reports whether a mover like j on the same node comes before it and stays:
// then evicting j leads to nothing that evicting that one would not.
func (r *repack) interchangeable(j int, before []int, node int) bool {
	m := &r.movers[j]
	if m.want.SMT != workload.SMTPrefer || r.want.SMT != workload.SMTPrefer || len(m.held.home) != 1 ||
		m.want.pull != nil {
		return false
	}
	for _, i := range before {
		if o := &r.movers[i]; !o.out && o.cpus[node] == m.cpus[node] && o.memory[node] == m.memory[node] &&
			alike(&o.want, &m.want) {
			return true
		}
	}
	return false
}

func alike(a, b *want) bool {
	return a.Class == b.Class && a.vcpus == b.vcpus && a.memory == b.memory && a.HugePage == b.HugePage &&
		a.SMT == b.SMT && a.pull == nil && b.pull == nil &&
		a.MaxNodes == b.MaxNodes && a.MinNodes == b.MinNodes && a.Even == b.Even && a.Bandwidth == b.Bandwidth &&
		a.Importance == b.Importance && a.Nodes.Equal(b.Nodes)
}

// finish puts what is seated in order, places the new workload for good, and
// keeps the plan if it is the best so far.
func (r *repack) finish() {
	moves, l, ok := r.order()
	if !ok {
		return
	}
	s := &solution{moves: moves}
	for i := range moves {
		s.kib += moves[i].KiB
	}
	if r.self < 0 {
		s.result = l.Place(r.req)
		if !s.result.Placed() || !r.good(l, &s.result.Placement) {
			return
		}
		s.score = s.result.Decision.Candidates[0].Score
	}
	for _, x := range r.seated {
		if x.who >= 0 {
			k, _ := l.find(r.movers[x.who].held.Workload)
			was, is := r.movers[x.who].want.fares(r.start, r.movers[x.who].held),
				r.movers[x.who].want.fares(l, l.held[k])
			s.score += is.sum() - was.sum()
			s.weight += r.movers[x.who].held.Importance
		}
	}
	if (r.accepts == nil || r.accepts(s)) && s.better(r.best) {
		r.best = s
	}
}
