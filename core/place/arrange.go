package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Subject is a running workload to be arranged.
type Subject struct {
	Spec        workload.Spec
	Observation workload.Observation
	Alone       words.Reason // why it is not homenode's to place; none when it is
	// Aside is why it gets no home by what it asks for; one that it has, or what was given
	// (Spec.Given), counts all the same.
	Aside words.Reason
	// Fixed: it is where its placement in the State says and nothing moves it, such as a
	// guest with its own CPUs. No step is made for it, and nobody else gets what it holds.
	Fixed bool
	// Crowd: a new home is found as Request.Crowd says.
	Crowd bool
	// Booked: what it uses is in the ledger under another name, and counts there.
	Booked bool
}

// Options are the thresholds and speeds that Arrange goes by.
type Options struct {
	MinMemory     topology.KiB // a workload with less resident memory …
	MinCPU        float64      // … that also keeps fewer CPUs busy is left alone, unless its Spec was given
	MoveBandwidth int64        // of page moves, bytes/s; 0 leaves their time unknown
}

// Arrange decides where running workloads belong and what must change for it.
//
// Homes that exist and still hold are kept, whatever better ones there may be:
// moving is the balancer's business. Then those without a home get one, the
// strongest class first, then the most important, then the largest, for large
// ones fit worst later. What was seen and what shall be give the steps.
func Arrange(st plan.State, subjects []*Subject, opt Options) plan.Plan {
	_, out := arrange(st, subjects, opt)
	return out
}

func arrange(st plan.State, subjects []*Subject, opt Options) (*arrangement, plan.Plan) {
	a := newArrangement(st, subjects, opt)
	a.leaveAlone()
	a.keep()
	a.countForeign()
	a.placeRest()
	return a, a.plan()
}

// arrangement is one run of Arrange.
type arrangement struct {
	opt       Options
	host      *topology.Host
	lower     topology.NodeSet // to which the kernel demotes
	ledger    *Ledger
	subjects  []subject       // rising by ID
	decisions []plan.Decision // of the subjects
	order     []*subject      // the subjects in the order of placing, see sort
	groups    []int           // where in order each group of those that can stay as they are ends
	absent    []absent
	was       []plan.Placement
	scratch   Request
	anyFixed  bool
	// everywhereHome: there is one node, and no CPU that shared work must keep off.
	everywhereHome bool
	loose          bool   // holdings are not in the ledger's list yet, see gather
	measured       bool   // the ledger was told what its holdings use, see measure
	homes          []home // at most mostFloats, in no order
	homesAt        []home // of one node, by node
}

// absent is a placement of what does not run yet.
type absent struct {
	*plan.Placement
	holding *holding
}

// home is what is the same for all workloads of a home.
type home struct {
	nodes  topology.NodeSet
	memory topology.NodeSet // of it those that can hold memory
	stays  topology.NodeSet // whose memory no move to these fetches
	mems   topology.NodeSet // these, and those to which the kernel demotes from them
	kept   []words.Reason
}

// home looks a home up. It is not to be changed.
func (a *arrangement) home(nodes topology.NodeSet) *home {
	if i := a.ledger.index(nodes.Min()); i >= 0 && nodes.Len() == 1 {
		return a.homeAt(i)
	}
	for i := range a.homes {
		if a.homes[i].nodes.Equal(nodes) {
			return &a.homes[i]
		}
	}
	h := a.newHome(nodes)
	if len(a.homes) < mostFloats {
		a.homes = append(a.homes, h)
	}
	return &h
}

// homeAt is the home that is one node.
func (a *arrangement) homeAt(node int) *home {
	if a.homesAt == nil {
		a.homesAt = make([]home, len(a.ledger.nodes))
	}
	h := &a.homesAt[node]
	if h.kept == nil {
		*h = a.newHome(a.ledger.nodes[node].alone)
	}
	return h
}

func (a *arrangement) newHome(nodes topology.NodeSet) home {
	h := home{nodes: nodes, kept: words.Reasons(words.Because(words.HomeKept, nodes))}
	for i := range a.host.Nodes {
		n := &a.host.Nodes[i]
		if nodes.Has(n.ID) && n.Memory != 0 && a.host.AllowedMems.Has(n.ID) {
			h.memory.Add(n.ID)
		}
	}
	h.stays = a.host.Stays(h.memory)
	h.mems = h.memory.Union(a.host.Below(h.memory))
	return h
}

// subject is a Subject with what was decided.
type subject struct {
	*Subject
	old      *plan.Placement // its placement so far; nil for none
	decision *plan.Decision  // decided when it has an outcome
	held     bool            // fixed, and in the ledger
	holding  *holding        // its place in the ledger, while that is loose
	placed   *plan.Placement
	rest     *plan.Placement // what it still holds of a home that it lost, until it is placed anew; nil for nothing
	asBefore asBefore
	turn     turn // in keep
}

// turn is when the home of a subject is kept.
type turn uint8

const (
	never turn = iota // it has none, is left alone or fixed
	dedicatedFirst
	floatingNext
	crowdLast // takes no room from those that need it
)

func newArrangement(st plan.State, rising []*Subject, opt Options) *arrangement {
	a := &arrangement{opt: opt, host: st.Host, lower: st.Host.Lower(), loose: true}
	for i := 1; i < len(rising); i++ {
		if rising[i-1].Observation.ID < rising[i].Observation.ID {
			continue
		}
		rising = slices.Clone(rising)
		slices.SortStableFunc(rising, func(x, y *Subject) int { return cmp.Compare(x.Observation.ID, y.Observation.ID) })
		rising = slices.CompactFunc(rising, func(x, y *Subject) bool { return x.Observation.ID == y.Observation.ID })
		break
	}
	old := st.Placements
	if !slices.IsSortedFunc(old, byWorkload) {
		old = slices.Clone(old)
		slices.SortStableFunc(old, byWorkload)
	}
	a.subjects = make([]subject, len(rising))
	if len(rising) > 0 {
		a.decisions = make([]plan.Decision, len(rising))
	}
	k := 0
	for i, g := range rising {
		s := &a.subjects[i]
		*s = subject{Subject: g, decision: &a.decisions[i]}
		id := g.Observation.ID
		for ; k < len(old) && old[k].Workload < id; k++ {
			a.addAbsent(&old[k])
		}
		for ; k < len(old) && old[k].Workload == id; k++ {
			s.old = &old[k]
		}
	}
	for ; k < len(old); k++ {
		a.addAbsent(&old[k])
	}
	a.was, st.Placements = st.Placements, nil
	a.ledger = NewLedger(st)
	return a
}

func byWorkload(x, y plan.Placement) int { return cmp.Compare(x.Workload, y.Workload) }

func (a *arrangement) addAbsent(p *plan.Placement) {
	if n := len(a.absent); n == 0 || a.absent[n-1].Workload != p.Workload {
		a.absent = append(a.absent, absent{Placement: p})
	}
}

// commit puts a placement into the ledger. While that is loose, it is not put in order by
// workload each time: gather does it once for all.
func (a *arrangement) commit(p *plan.Placement, to **holding) {
	if !a.loose {
		a.ledger.Commit(*p)
		return
	}
	if len(a.ledger.arena.holdings) == 0 {
		a.ledger.arena.holdings = make([]holding, 64)
	}
	*to = a.ledger.newHolding(p)
	a.ledger.book(*to, 1)
	if a.ledger.over() {
		a.gather()
		a.ledger.settle()
	}
}

// gather puts what was committed so far into the list of the ledger.
func (a *arrangement) gather() {
	if !a.loose {
		return
	}
	a.loose = false
	a.holdAsBefore()
	held, k := make([]*holding, 0, len(a.subjects)+len(a.absent)), 0
	for i := range a.subjects {
		for ; k < len(a.absent) && a.absent[k].Workload < a.subjects[i].Observation.ID; k++ {
			held = append(held, a.absent[k].holding)
		}
		held = append(held, a.subjects[i].holding)
	}
	for ; k < len(a.absent); k++ {
		held = append(held, a.absent[k].holding)
	}
	a.ledger.held = slices.DeleteFunc(held, func(h *holding) bool { return h == nil })
}

// steady is a request with steadySize.
func steady(h *topology.Host, s *subject) Request {
	r := request(h, s)
	r.Spec.CPUs, r.Spec.Memory = steadySize(&s.Spec, s.old)
	return r
}

// steadySize is sizes that were derived, not given, as they were before unless they left
// the range from half to all of that: use goes up and down, homes should not.
func steadySize(spec *workload.Spec, old *plan.Placement) (cpus int, memory topology.KiB) {
	cpus, memory = spec.CPUs, spec.Memory
	if spec.Given {
		return cpus, memory
	}
	if 2*cpus > old.VCPUs && cpus <= old.VCPUs {
		cpus = old.VCPUs
	}
	if 2*memory > old.Asked && memory <= old.Asked {
		memory = old.Asked
	}
	return cpus, memory
}

// request is what a running workload asks for.
func request(h *topology.Host, s *subject) Request {
	spec, obs := s.Spec, &s.Observation
	spec.ID = obs.ID
	// Memory can only come to lie where the workload may have it. Homenode itself
	// narrows that for dedicated work, and then may widen it again.
	// The nodes of a guest are changed with its home.
	ours := (s.old != nil && s.old.Bound) || obs.Caps.Rebinds
	if !ours && !obs.Mems.Empty() && !h.AllowedMems.SubsetOf(obs.Mems) {
		may := obs.Mems.Clone()
		if !spec.Nodes.Empty() {
			may = may.Intersect(spec.Nodes)
		} else if others := may.Minus(h.GPUNodes()); !others.Empty() {
			may = others // to be allowed there is not to name it
		}
		if !may.Empty() {
			spec.Nodes = may
		}
	}
	return Request{Spec: spec, Memory: obs.Memory, CPUs: obs.CPUs, RanOn: obs.RanOn, Must: true, Crowd: s.Crowd, Waited: Waited(obs)}
}

// openToAll reports whether all CPUs of the host are there for everybody. They are not when
// some are reserved or set apart, or dedicated work holds them or is about to.
func (a *arrangement) openToAll() bool {
	if a.ledger.policy.Split || a.ledger.policy.Reserved.Intersects(a.host.Online) {
		return false
	}
	for i := range a.subjects {
		if s := &a.subjects[i]; s.Spec.Class == workload.Dedicated ||
			(s.old != nil && s.old.Class == workload.Dedicated) {
			return false
		}
	}
	return !slices.ContainsFunc(a.absent, func(x absent) bool { return x.Class == workload.Dedicated })
}

// leaveAlone decides for those that are not to be placed.
func (a *arrangement) leaveAlone() {
	a.everywhereHome = len(a.host.Nodes) < 2 && a.openToAll()
	for i := range a.subjects {
		s := &a.subjects[i]
		a.anyFixed = a.anyFixed || s.Fixed
		a.leave(s)
	}
	a.sort(false)
	a.holdFixed(true)
}

// leave decides on a subject if it is not to be placed, and else says when its home is kept. It goes by the subject, by
// its placement and by the host alone.
func (a *arrangement) leave(s *subject) {
	switch why := a.whyLeave(s); {
	case s.Fixed && s.old != nil:
	case !why.None():
		*s.decision = plan.Decision{Workload: s.Observation.ID, Outcome: plan.LeftAlone, Reasons: []words.Reason{why}}
	case s.old == nil:
	case s.old.Class == workload.Dedicated:
		s.turn = dedicatedFirst
	case s.Crowd:
		s.turn = crowdLast
	default:
		s.turn, s.asBefore = floatingNext, a.asBefore(s)
	}
}

// holdFixed holds the fixed ones, those with CPUs of their own or those that float.
func (a *arrangement) holdFixed(dedicated bool) {
	if !a.anyFixed {
		return
	}
	for _, s := range a.order {
		if s.Fixed && s.old != nil && (s.old.Class == workload.Dedicated) == dedicated {
			*s.decision = a.hold(s)
		}
	}
}

// hold commits what a fixed subject holds, before all others that have no CPUs of
// their own or may lose them: it cannot make way.
// What two of them hold, or the host keeps for itself, is left to be told.
func (a *arrangement) hold(s *subject) plan.Decision {
	d := plan.Decision{Workload: s.Observation.ID, Outcome: plan.Kept, Home: s.old.Home}
	if !s.Alone.None() {
		d.Outcome, d.Reasons = plan.LeftAlone, []words.Reason{s.Alone}
	}
	r := request(a.host, s)
	p, why := renew(a.ledger, s.old, &r)
	if !why.None() { // its memory lies where it lies
		without := *s.old
		without.Memory, without.Asked = nil, 0
		r.Spec.Memory, r.Memory = 0, nil
		var cpus words.Reason
		if p, cpus = renew(a.ledger, &without, &r); !cpus.None() {
			d.Outcome, d.Home = plan.LeftAlone, topology.NodeSet{}
			d.Reasons = append(d.Reasons, words.Because(words.HoldsLost, cpus))
			return d
		}
		d.Reasons = append(d.Reasons, words.Because(words.MemoryUnbooked, why))
	}
	a.commit(p, &s.holding)
	if len(d.Reasons) == 0 {
		d.Reasons = words.Reasons(words.Because(words.FixedHome, p.Home))
	}
	s.held = true
	return d
}

// countForeign counts what those left alone hold as in use where it lies. It
// comes after the homes that are kept: a home does not end because somebody
// without one takes memory there.
func (a *arrangement) countForeign() {
	for _, s := range a.order {
		if s.turn == never && s.decision.Outcome == plan.LeftAlone && !s.held && !s.Booked {
			a.ledger.AddForeign(&s.Observation)
		}
	}
}

func (a *arrangement) whyLeave(s *subject) words.Reason {
	obs := &s.Observation
	switch {
	case !s.Alone.None():
		return s.Alone
	case s.Fixed:
		return words.Because(words.FixedHomeless)
	case a.everywhereHome && !s.Spec.Given && s.old == nil: // what was asked for holds its CPUs and memory here too
		return words.Because(words.SingleNode)
	case obs.Pinned:
		if obs.PinnedWhy != "" {
			return words.Because(words.OwnAffinity, obs.PinnedWhy)
		}
		return words.Because(words.OwnAffinity, "CPUs "+obs.CPUs.String())
	case s.Spec.Given || s.old != nil || s.Spec.Serves():
		return words.Reason{}
	}
	switch resident := workload.Total(obs.Memory); {
	case resident == 0 && obs.CPUUse == 0:
		return words.Because(words.NeedsUnknown)
	case resident == 0 && obs.CPUUse < a.opt.MinCPU: // no memory is memory that could not be read
		return words.Because(words.TooSmallUnread, obs.CPUUse, a.opt.MinMemory, a.opt.MinCPU)
	case resident < a.opt.MinMemory && obs.CPUUse < a.opt.MinCPU:
		return words.Because(words.TooSmall, resident, obs.CPUUse, a.opt.MinMemory, a.opt.MinCPU)
	}
	return s.Aside
}

// keep commits the homes that still hold: those of running work, and those of
// work that has a home and does not run yet. What has CPUs of its own comes first,
// for what floats goes by what is left.
func (a *arrangement) keep() {
	for _, now := range []turn{dedicatedFirst, floatingNext, crowdLast} {
		dedicated := now == dedicatedFirst
		if now == floatingNext {
			a.holdFixed(false)
		}
		from := 0
		for _, end := range a.groups {
			if now == floatingNext {
				a.keepGroup(a.order[from:end])
			}
			if end < len(a.order) && a.order[end].turn == now && !a.keepAsBefore(a.order[end]) {
				a.keepOne(a.order[end])
			}
			from = min(end+1, len(a.order))
		}
		for i := range a.absent {
			p := &a.absent[i]
			if now == crowdLast || (p.Class == workload.Dedicated) != dedicated {
				continue
			}
			// A process that is not seen yet has just been started, in a home that it was promised.
			kept, why := renew(a.ledger, p.Placement, &Request{Spec: specOf(p.Placement)})
			if !why.None() {
				kept = a.ledger.rest(p.Placement)
			}
			if kept != nil {
				a.commit(kept, &p.holding)
			}
		}
	}
	a.decideAsBefore()
}

func (a *arrangement) keepOne(s *subject) {
	a.scratch = steady(a.host, s)
	p, why := renew(a.ledger, s.old, &a.scratch)
	if !why.None() {
		a.scratch = request(a.host, s)
		p, why = renew(a.ledger, s.old, &a.scratch)
	}
	if !why.None() {
		s.decision.Reasons = words.Reasons(words.Because(words.HomeLost, s.old.Home, why))
		lost := s.old.CPUs.Union(s.old.Idle).Intersects(a.host.Offline) || len(s.old.Pins) < s.Spec.CPUs ||
			why.Code == words.MemoryShort
		if s.Spec.Class == workload.Dedicated && lost {
			rest := a.ledger.rest(s.old)
			// nobody else gets it before it is known whether another home has room
			if rest != nil && !rest.CPUs.Empty() {
				s.rest = rest
				a.commit(rest, &s.holding)
			}
		}
		return
	}
	a.commit(p, &s.holding)
	*s.decision = plan.Decision{Workload: p.Workload, Outcome: plan.Kept, Home: p.Home, Reasons: a.home(p.Home).kept}
}

// placeRest finds homes for those that have none.
func (a *arrangement) placeRest() {
	for _, s := range a.order {
		if s.asBefore.kept || s.decision.Outcome != "" {
			continue
		}
		a.measure()
		lost := s.decision.Reasons
		if s.rest != nil {
			a.ledger.Remove(s.old.Workload)
		}
		req := request(a.host, s)
		if s.old != nil && s.old.Class == workload.Dedicated {
			req.Had = s.old.CPUs.Union(s.old.Idle)
		}
		r := a.ledger.Place(req)
		*s.decision = r.Decision
		s.decision.Reasons = append(lost, r.Decision.Reasons...)
		if !r.Placed() && s.rest != nil {
			s.decision.Outcome, s.decision.Home = plan.Kept, s.rest.Home
			s.decision.Reasons = append(s.decision.Reasons, words.Because(words.RestKept, s.rest.CPUs))
			a.ledger.Commit(*s.rest)
			continue
		}
		if !r.Placed() {
			s.decision.Reasons = append(s.decision.Reasons, words.Because(words.RunsOn))
			a.ledger.AddForeign(&s.Observation)
			continue
		}
		p := r.Placement
		if s.old != nil {
			p.Start = s.old.Start
		}
		if s.Observation.OwnPolicy != "" || s.Observation.Kind != workload.InCgroup {
			p.Bound = false
		}
		a.ledger.Commit(p)
	}
}

// measure has the ledger count what it holds by what was seen of it, once there is something to
// be placed.
func (a *arrangement) measure() {
	a.gather()
	if a.measured {
		return
	}
	a.measured = true
	all := make([]*Subject, len(a.subjects))
	for i := range a.subjects {
		all[i] = a.subjects[i].Subject
	}
	a.ledger.Measure(all)
}

// plan is the outcome: placements, the steps that lead there, and why.
func (a *arrangement) plan() plan.Plan {
	out := plan.Plan{Placements: a.was, Report: plan.Report{Decisions: a.decisions}}
	if !a.allAsBefore() {
		a.gather()
		out.Placements = a.ledger.placementsAs(a.was)
	}
	k, same := 0, len(a.was) > 0 && len(a.was) == len(out.Placements) && &a.was[0] == &out.Placements[0]
	for i := range a.subjects {
		s := &a.subjects[i]
		if same && s.asBefore.kept {
			if !s.asBefore.stays {
				s.placed = s.old
			}
			continue
		}
		for k < len(out.Placements) && out.Placements[k].Workload < s.Observation.ID {
			k++
		}
		if !s.held && (s.decision.Outcome == plan.Placed || s.decision.Outcome == plan.Kept) {
			s.placed = &out.Placements[k]
		}
	}
	if !same {
		a.sort(true)
	}
	for _, s := range a.order {
		if s.placed != nil {
			out.Steps = append(out.Steps, a.steps(s, s.placed)...)
		}
	}
	return out
}
