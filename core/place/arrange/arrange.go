package arrange

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

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
func Arrange(st plan.State, subjects []*place.Subject, opt Options) plan.Plan {
	_, out := arrange(st, subjects, opt)
	return out
}

func arrange(st plan.State, subjects []*place.Subject, opt Options) (*arrangement, plan.Plan) {
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
	policy    plan.Policy
	ledger    *place.Ledger
	filling   *place.Filling  // of the ledger
	subjects  []subject       // rising by ID
	decisions []plan.Decision // of the subjects
	order     []*subject      // the subjects in the order of placing, see sort
	groups    []int           // where in order each group of those that can stay as they are ends
	absent    []absent
	was       []plan.Placement
	scratch   place.Request
	anyFixed  bool
	// everywhereHome: there is one node, and no CPU that shared work must keep off.
	everywhereHome bool
	measured       bool   // the ledger was told what its holdings use, see measure
	homes          []home // at most mostHomes, in no order
	homesAt        []home // of one node, by its ID
}

// absent is a placement of what does not run yet.
type absent struct {
	*plan.Placement
	number int32 // among subjects and absent ones, by ID
}

// mostHomes bounds what is gone through for a home.
const mostHomes = 64

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
	if id := nodes.Min(); nodes.Len() == 1 && int(id) < len(a.homesAt) {
		h := &a.homesAt[id]
		if h.kept == nil {
			*h = a.newHome(nodes)
		}
		return h
	}
	for i := range a.homes {
		if a.homes[i].nodes.Equal(nodes) {
			return &a.homes[i]
		}
	}
	h := a.newHome(nodes)
	if len(a.homes) < mostHomes {
		a.homes = append(a.homes, h)
	}
	return &h
}

func (a *arrangement) newHome(nodes topology.NodeSet) home {
	h := home{nodes: nodes, kept: words.Reasons(words.Because(words.HomeKept, nodes))}
	h.memory = a.host.WithMemory().Intersect(a.host.AllowedMems).Intersect(nodes)
	h.stays = a.host.Stays(h.memory)
	h.mems = h.memory.Union(a.host.Below(h.memory))
	return h
}

// subject is a Subject with what was decided.
type subject struct {
	*place.Subject
	old      *plan.Placement // its placement so far; nil for none
	decision *plan.Decision  // decided when it has an outcome
	number   int32           // among subjects and absent ones, by ID
	held     bool            // fixed, and in the ledger
	turn     turn            // in keep
	placed   *plan.Placement
	rest     *plan.Placement // what it still holds of a home that it lost, until it is placed anew; nil for nothing
	asBefore asBefore
}

// turn is when the home of a subject is kept.
type turn uint8

const (
	never turn = iota // it has none, is left alone or fixed
	dedicatedFirst
	floatingNext
	crowdLast // takes no room from those that need it
)

func newArrangement(st plan.State, rising []*place.Subject, opt Options) *arrangement {
	a := &arrangement{opt: opt, host: st.Host, policy: st.Policy, lower: st.Host.Lower()}
	for i := 1; i < len(rising); i++ {
		if rising[i-1].Observation.ID < rising[i].Observation.ID {
			continue
		}
		rising = slices.Clone(rising)
		byID := func(x, y *place.Subject) int { return cmp.Compare(x.Observation.ID, y.Observation.ID) }
		slices.SortStableFunc(rising, byID)
		rising = slices.CompactFunc(rising, func(x, y *place.Subject) bool { return byID(x, y) == 0 })
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
			a.addAbsent(&old[k], i)
		}
		for ; k < len(old) && old[k].Workload == id; k++ {
			s.old = &old[k]
		}
		s.number = int32(i + len(a.absent))
	}
	for ; k < len(old); k++ {
		a.addAbsent(&old[k], len(rising))
	}
	a.was, st.Placements = st.Placements, nil
	a.ledger = place.NewLedger(st)
	a.filling = a.ledger.Fill(len(a.subjects) + len(a.absent))
	a.homesAt = make([]home, a.idsOfNodes())
	return a
}

func byWorkload(x, y plan.Placement) int { return cmp.Compare(x.Workload, y.Workload) }

// addAbsent adds a placement of what does not run, which comes behind so many subjects.
func (a *arrangement) addAbsent(p *plan.Placement, subjects int) {
	if n := len(a.absent); n == 0 || a.absent[n-1].Workload != p.Workload {
		a.absent = append(a.absent, absent{Placement: p, number: int32(subjects + len(a.absent))})
	}
}

// idsOfNodes is how many IDs of nodes there are, up to the highest.
func (a *arrangement) idsOfNodes() int {
	n := topology.NodeID(0)
	for i := range a.host.Nodes {
		n = max(n, a.host.Nodes[i].ID+1)
	}
	return int(n)
}

// steady is a request with steadySize.
func steady(h *topology.Host, s *subject) place.Request {
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
func request(h *topology.Host, s *subject) place.Request {
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
	return place.Request{
		Spec: spec, Memory: obs.Memory, CPUs: obs.CPUs, RanOn: obs.RanOn,
		Must: true, Crowd: s.Crowd, Waited: demand.Waited(obs),
	}
}

// openToAll reports whether all CPUs of the host are there for everybody. They are not when
// some are reserved or set apart, or dedicated work holds them or is about to.
func (a *arrangement) openToAll() bool {
	if a.policy.Split || a.policy.Reserved.Intersects(a.host.Online) {
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
	p, why := a.ledger.Renew(s.old, &r)
	if !why.None() { // its memory lies where it lies
		without := *s.old
		without.Memory, without.Asked = nil, 0
		r.Spec.Memory, r.Memory = 0, nil
		var cpus words.Reason
		if p, cpus = a.ledger.Renew(&without, &r); !cpus.None() {
			d.Outcome, d.Home = plan.LeftAlone, topology.NodeSet{}
			d.Reasons = append(d.Reasons, words.Because(words.HoldsLost, cpus))
			return d
		}
		d.Reasons = append(d.Reasons, words.Because(words.MemoryUnbooked, why))
	}
	a.filling.Put(s.number, p)
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
			kept, why := a.ledger.Renew(p.Placement, nil)
			if !why.None() {
				kept = a.ledger.Rest(p.Placement)
			}
			if kept != nil {
				a.filling.Put(p.number, kept)
			}
		}
	}
	a.decideAsBefore()
}

func (a *arrangement) keepOne(s *subject) {
	a.scratch = steady(a.host, s)
	p, why := a.ledger.Renew(s.old, &a.scratch)
	if !why.None() {
		a.scratch = request(a.host, s)
		p, why = a.ledger.Renew(s.old, &a.scratch)
	}
	if !why.None() {
		s.decision.Reasons = words.Reasons(words.Because(words.HomeLost, s.old.Home, why))
		lost := s.old.CPUs.Union(s.old.Idle).Intersects(a.host.Offline) || len(s.old.Pins) < s.Spec.CPUs ||
			why.Code == words.MemoryShort
		if s.Spec.Class == workload.Dedicated && lost {
			rest := a.ledger.Rest(s.old)
			// nobody else gets it before it is known whether another home has room
			if rest != nil && !rest.CPUs.Empty() {
				s.rest = rest
				a.filling.Put(s.number, rest)
			}
		}
		return
	}
	a.filling.Put(s.number, p)
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
	a.filling.Done()
	if a.measured {
		return
	}
	a.measured = true
	all := make([]*place.Subject, len(a.subjects))
	for i := range a.subjects {
		all[i] = a.subjects[i].Subject
	}
	a.ledger.Measure(all)
}

// plan is the outcome: placements, the steps that lead there, and why.
func (a *arrangement) plan() plan.Plan {
	out := plan.Plan{Placements: a.filling.Placements(a.was), Report: plan.Report{Decisions: a.decisions}}
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
