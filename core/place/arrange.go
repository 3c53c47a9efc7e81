package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Subject is a running workload to be arranged.
type Subject struct {
	Spec        workload.Spec
	Observation workload.Observation
	LeaveAlone  string // why it is not homenode's to place, a sentence; "" when it is
	// Fixed: it is where its placement in the State says and nothing moves it, such as a
	// guest with its own CPUs. No step is made for it, and nobody else gets what it holds.
	Fixed bool
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
func Arrange(st plan.State, subjects []Subject, opt Options) plan.Plan {
	a := newArrangement(st, subjects, opt)
	a.leaveAlone()
	a.keep()
	a.countForeign()
	a.placeRest()
	return a.plan()
}

// arrangement is one run of Arrange.
type arrangement struct {
	opt      Options
	host     *topology.Host
	ledger   *Ledger
	subjects []subject // in the order of placing
	absent   []plan.Placement
}

// subject is a Subject with what was decided.
type subject struct {
	*Subject
	old      *plan.Placement // its placement so far; nil for none
	request  Request
	decision plan.Decision // decided when it has an outcome
	held     bool          // fixed, and in the ledger
}

func newArrangement(st plan.State, given []Subject, opt Options) *arrangement {
	a := &arrangement{opt: opt, host: st.Host}
	old := make(map[workload.ID]*plan.Placement, len(st.Placements))
	for i := range st.Placements {
		old[st.Placements[i].Workload] = &st.Placements[i]
	}
	seen := make(map[workload.ID]bool, len(given))
	a.subjects = make([]subject, 0, len(given))
	for i := range given {
		g := &given[i]
		if id := g.Observation.ID; !seen[id] {
			seen[id] = true
			s := subject{Subject: g, old: old[id]}
			s.request = request(st.Host, &s)
			a.subjects = append(a.subjects, s)
		}
	}
	slices.SortFunc(a.subjects, func(x, y subject) int { return inOrder(&x.request.Spec, &y.request.Spec) })
	for i := range st.Placements {
		if p := &st.Placements[i]; !seen[p.Workload] {
			seen[p.Workload] = true
			a.absent = append(a.absent, *p)
		}
	}
	st.Placements = nil
	a.ledger = NewLedger(st)
	return a
}

// inOrder is the order in which workloads choose: dedicated before shared
// before offline, then the more important, then the larger, then by ID.
func inOrder(x, y *workload.Spec) int {
	return cmp.Or(
		cmp.Compare(slices.Index(workload.Classes, x.Class), slices.Index(workload.Classes, y.Class)),
		-cmp.Compare(x.Importance, y.Importance),
		-cmp.Compare(x.CPUs, y.CPUs),
		-cmp.Compare(x.Memory, y.Memory),
		cmp.Compare(x.ID, y.ID),
	)
}

// steady is a request with sizes that were derived, not given, as they were
// before unless they left the range from half to all of that: use goes up and
// down, homes should not.
func steady(s *subject) Request {
	r := s.request
	if s.Spec.Given {
		return r
	}
	if 2*r.Spec.CPUs > s.old.VCPUs && r.Spec.CPUs <= s.old.VCPUs {
		r.Spec.CPUs = s.old.VCPUs
	}
	if 2*r.Spec.Memory > s.old.Asked && r.Spec.Memory <= s.old.Asked {
		r.Spec.Memory = s.old.Asked
	}
	return r
}

// request is what a running workload asks for.
func request(h *topology.Host, s *subject) Request {
	spec, obs := s.Spec, &s.Observation
	spec.ID = obs.ID
	// Memory can only come to lie where the workload may have it. Homenode itself
	// narrows that for dedicated work, and then may widen it again.
	// The nodes of a guest are changed with its home.
	ours := s.old != nil && s.old.Bound || obs.Kind == workload.InGuest
	if !ours && !obs.Mems.Empty() && !h.AllowedMems.SubsetOf(obs.Mems) {
		may := obs.Mems.Clone()
		if !spec.Nodes.Empty() {
			may = may.Intersect(spec.Nodes)
		}
		if !may.Empty() {
			spec.Nodes = may
		}
	}
	return Request{Spec: spec, Memory: obs.Memory, CPUs: obs.CPUs, RanOn: obs.RanOn, Must: true}
}

// leaveAlone decides for those that are not to be placed.
func (a *arrangement) leaveAlone() {
	a.holdFixed(true)
	for i := range a.subjects {
		s := &a.subjects[i]
		if s.Fixed && s.old != nil {
			continue
		}
		if why := a.whyLeave(s); why != "" {
			s.decision = plan.Decision{Workload: s.Observation.ID, Outcome: plan.LeftAlone, Reasons: []string{why}}
		}
	}
}

// holdFixed holds the fixed ones, those with CPUs of their own or those that float.
func (a *arrangement) holdFixed(dedicated bool) {
	for i := range a.subjects {
		if s := &a.subjects[i]; s.Fixed && s.old != nil && (s.old.Class == workload.Dedicated) == dedicated {
			s.decision = a.hold(s)
		}
	}
}

// hold commits what a fixed subject holds, before all others that have no CPUs of
// their own or may lose them: it cannot make way.
// What two of them hold, or the host keeps for itself, is left to be told.
func (a *arrangement) hold(s *subject) plan.Decision {
	d := plan.Decision{Workload: s.Observation.ID, Outcome: plan.Kept, Home: s.old.Home}
	if s.LeaveAlone != "" {
		d.Outcome, d.Reasons = plan.LeftAlone, []string{s.LeaveAlone}
	}
	p, why := a.ledger.still(s.old, &s.request)
	if why != "" { // its memory lies where it lies
		without := *s.old
		without.Memory, without.Asked = nil, 0
		r := s.request
		r.Spec.Memory, r.Memory = 0, nil
		var cpus string
		if p, cpus = a.ledger.still(&without, &r); cpus != "" {
			d.Outcome, d.Home = plan.LeftAlone, topology.NodeSet{}
			d.Reasons = append(d.Reasons, fmt.Sprintf("What it holds cannot be kept for it: %s.", cpus))
			return d
		}
		d.Reasons = append(d.Reasons, fmt.Sprintf("Its memory is not booked: %s.", why))
	}
	a.ledger.Commit(p)
	if len(d.Reasons) == 0 {
		d.Reasons = []string{fmt.Sprintf("It is on %s and moves only when told to.", nodesWords(p.Home))}
	}
	s.held = true
	return d
}

// countForeign counts what those left alone hold as in use where it lies. It
// comes after the homes that are kept: a home does not end because somebody
// without one takes memory there.
func (a *arrangement) countForeign() {
	for i := range a.subjects {
		if s := &a.subjects[i]; s.decision.Outcome == plan.LeftAlone && !s.held {
			a.ledger.AddForeign(&s.Observation)
		}
	}
}

func (a *arrangement) whyLeave(s *subject) string {
	obs := &s.Observation
	resident := workload.Total(obs.Memory)
	switch {
	case s.LeaveAlone != "":
		return s.LeaveAlone
	case s.Fixed:
		return "It moves only when told to, and has no home."
	case len(a.host.Nodes) < 2 && !s.Spec.Given: // what was asked for holds its CPUs and memory here too
		return "This host has one node only: everything is at home."
	case obs.Pinned:
		why := obs.PinnedWhy
		if why == "" {
			why = fmt.Sprintf("CPUs %v", obs.CPUs)
		}
		return fmt.Sprintf("It has CPU affinities of its own or from another manager (%s); homenode does not fight over them.", why)
	case s.Spec.Given || s.old != nil:
		return ""
	case resident == 0 && obs.CPUUse == 0:
		return "Nothing is known of what it needs: its memory is not known and it used no CPU."
	case resident == 0 && obs.CPUUse < a.opt.MinCPU: // no memory is memory that could not be read
		return fmt.Sprintf("It is small: %.2f CPUs in use, its memory is not known; from %s or %.2f CPUs on it would be placed.",
			obs.CPUUse, size(a.opt.MinMemory), a.opt.MinCPU)
	case resident < a.opt.MinMemory && obs.CPUUse < a.opt.MinCPU:
		return fmt.Sprintf("It is small: %s resident and %.2f CPUs in use; from %s or %.2f CPUs on it would be placed.",
			size(resident), obs.CPUUse, size(a.opt.MinMemory), a.opt.MinCPU)
	}
	return ""
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

// keep commits the homes that still hold: those of running work, and those of
// work that has a home and does not run yet. What has CPUs of its own comes first,
// for what floats goes by what is left.
func (a *arrangement) keep() {
	for _, dedicated := range []bool{true, false} {
		if !dedicated {
			a.holdFixed(false)
		}
		for i := range a.subjects {
			if s := &a.subjects[i]; s.decision.Outcome == "" && s.old != nil && (s.old.Class == workload.Dedicated) == dedicated {
				a.keepOne(s)
			}
		}
		for i := range a.absent {
			p := &a.absent[i]
			if (p.Class == workload.Dedicated) != dedicated {
				continue
			}
			spec := workload.Spec{
				ID: p.Workload, Class: p.Class, Importance: p.Importance, CPUs: p.VCPUs, Memory: p.Asked, HugePage: p.HugePage,
				Bandwidth: p.Bandwidth, Nodes: p.Within,
			}
			if kept, why := a.ledger.still(p, &Request{Spec: spec}); why == "" {
				a.ledger.Commit(kept)
			}
		}
	}
}

func (a *arrangement) keepOne(s *subject) {
	r := steady(s)
	p, why := a.ledger.still(s.old, &r)
	if why != "" {
		p, why = a.ledger.still(s.old, &s.request)
	}
	if why != "" {
		s.decision.Reasons = []string{fmt.Sprintf("Its home %s no longer holds it: %s.", nodesWords(s.old.Home), why)}
		return
	}
	a.ledger.Commit(p)
	s.decision = plan.Decision{
		Workload: p.Workload, Outcome: plan.Kept, Home: p.Home,
		Reasons: []string{fmt.Sprintf("Its home is %s and still holds it.", nodesWords(p.Home))},
	}
}

// still is a placement brought up to date with what is wanted now, or why it
// cannot stand.
func (l *Ledger) still(old *plan.Placement, req *Request) (plan.Placement, string) {
	w := l.newWant(req)
	p := *old
	p.Importance, p.VCPUs, p.Bandwidth = w.Importance, w.vcpus, w.Bandwidth
	if p.Class != w.Class {
		return p, fmt.Sprintf("it was %s and is %s now", p.Class, w.Class)
	}
	if w.Class == workload.Offline {
		return l.stillOffline(&w, p)
	}
	var home []int
	for n := range p.Home.All() {
		i := l.index(n)
		if i < 0 {
			return p, fmt.Sprintf("node %d is gone", n)
		}
		if !l.eligible(&w, i) {
			return p, fmt.Sprintf("it may no longer use node %d", n)
		}
		home = append(home, i)
	}
	if len(home) == 0 || w.MaxNodes > 0 && len(home) > w.MaxNodes {
		return p, fmt.Sprintf("it may be on at most %s", count(w.MaxNodes, "node"))
	}
	if why := l.stillCPUs(&w, &p, home); why != "" {
		return p, why
	}
	return p, l.stillMemory(&w, &p, home, workload.Total(req.Memory))
}

// stillOffline keeps the memory of offline work where it was booked; its CPUs are
// whatever is free.
func (l *Ledger) stillOffline(w *want, p plan.Placement) (plan.Placement, string) {
	r := l.placeOffline(w)
	if !r.Placed() {
		return p, "no CPU or no memory is left for it"
	}
	n := r.Placement
	n.Start = p.Start
	if n.Asked == p.Asked && n.HugePage == p.HugePage && l.booksFit(w, &p) {
		n.Memory = p.Memory
		n.CPUs, n.Home = l.offlineCPUs(&n)
	}
	return n, ""
}

// stillCPUs checks the CPUs of a placement against what is free.
func (l *Ledger) stillCPUs(w *want, p *plan.Placement, home []int) string {
	if w.Class == workload.Dedicated {
		if len(p.Pins) != w.vcpus {
			return fmt.Sprintf("it has %d CPUs and wants %d", len(p.Pins), w.vcpus)
		}
		for cpu := range p.CPUs.Union(p.Idle).All() {
			switch {
			case int(cpu) >= len(l.coreAt) || l.coreAt[cpu] < 0:
				return fmt.Sprintf("CPU %d is offline or reserved", cpu)
			case l.policy.Split && !l.policy.Dedicated.Has(cpu):
				return fmt.Sprintf("CPU %d is for shared work", cpu)
			case l.owners[cpu] > 0:
				return fmt.Sprintf("CPU %d belongs to another", cpu)
			case !p.Home.Has(l.nodes[l.cores[l.coreAt[cpu]].node].id):
				return fmt.Sprintf("CPU %d is not on it", cpu)
			}
		}
		return ""
	}
	why, vcpus := "", 0
	l.eachShare(home, func(i int, share float64) {
		n := &l.nodes[i]
		vcpus++
		v := share * float64(w.vcpus)
		if why == "" && (n.open() == 0 || v > l.sharedRoom(n)+tiny) {
			why = fmt.Sprintf("node %d has %s for shared work, and %.1f vCPUs want them", n.id, count(n.open(), "CPU"), n.sharedVCPUs()+v)
		}
	})
	if vcpus == 0 {
		return "none of its CPUs is online"
	}
	p.CPUs = l.floating(home, workload.Shared)
	return why
}

// stillMemory books the memory wanted now on the home, or failing that what is
// resident: headroom is no reason to move.
func (l *Ledger) stillMemory(w *want, p *plan.Placement, home []int, resident topology.KiB) string {
	p.HugePage = w.HugePage
	if p.Asked == max(0, w.Memory) && l.booksFit(w, p) {
		return ""
	}
	for _, asked := range []topology.KiB{max(0, w.Memory), resident} {
		if asked > max(0, w.Memory) {
			continue
		}
		memory := plan.RoundUp(min(asked, unlimited), w.HugePage)
		if mem, ok := l.bookOn(w, p, home, memory); ok {
			p.Asked, p.Memory = asked, mem
			return ""
		}
	}
	room := topology.KiB(0)
	for _, i := range home {
		room += l.memoryRoom(w, i)
	}
	return fmt.Sprintf("it has room for %s there, and wants %s", size(room), size(w.memory))
}

// booksFit reports whether the bookings of p fit as they are.
func (l *Ledger) booksFit(w *want, p *plan.Placement) bool {
	for _, m := range p.Memory {
		if i := l.index(m.Node); i < 0 || p.Class != workload.Offline && !p.Home.Has(m.Node) || m.KiB > l.memoryRoom(w, i) {
			return false
		}
	}
	return workload.Total(p.Memory) == w.memory
}

// bookOn books memory on the home: where it lies already, then where it was
// booked, then on the nodes with most room.
func (l *Ledger) bookOn(w *want, p *plan.Placement, home []int, memory topology.KiB) ([]workload.NodeMemory, bool) {
	page := max(1, w.HugePage)
	booked := make([]topology.KiB, len(home))
	left := memory
	put := func(k int, wish topology.KiB) {
		x := max(0, min(wish/page*page, l.memoryRoom(w, home[k])-booked[k], left))
		booked[k] += x
		left -= x
	}
	for k, i := range home {
		if w.lies != nil {
			put(k, topology.KiB(w.lies[i]*float64(memory)))
		}
	}
	for k, i := range home {
		put(k, workload.On(p.Memory, topology.Nodes(l.nodes[i].id))-booked[k])
	}
	for range home {
		best := 0
		for k, i := range home {
			if l.memoryRoom(w, i)-booked[k] > l.memoryRoom(w, home[best])-booked[best] {
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

// placeRest finds homes for those that have none.
func (a *arrangement) placeRest() {
	for i := range a.subjects {
		s := &a.subjects[i]
		if s.decision.Outcome != "" {
			continue
		}
		lost := s.decision.Reasons
		r := a.ledger.Place(s.request)
		s.decision = r.Decision
		s.decision.Reasons = append(lost, r.Decision.Reasons...)
		if !r.Placed() {
			s.decision.Reasons = append(s.decision.Reasons, "It runs on where it is.")
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

// plan is the outcome: placements, the steps that lead there, and why.
func (a *arrangement) plan() plan.Plan {
	out := plan.Plan{Placements: a.ledger.Placements()}
	for i := range a.subjects {
		s := &a.subjects[i]
		if !s.held && (s.decision.Outcome == plan.Placed || s.decision.Outcome == plan.Kept) {
			k, _ := a.ledger.find(s.Observation.ID)
			out.Steps = append(out.Steps, a.steps(s, &out.Placements[k])...)
		}
		out.Report.Decisions = append(out.Report.Decisions, s.decision)
	}
	slices.SortFunc(out.Report.Decisions, func(x, y plan.Decision) int { return cmp.Compare(x.Workload, y.Workload) })
	return out
}
