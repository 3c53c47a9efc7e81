package control

import (
	"cmp"
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// tellScan writes what is new since the scan before.
func (s *State) tellScan(before *State) {
	s.tellHost(before.Snapshot.Host, s.Snapshot.Host)
	s.tellWorkloads(before)
	for _, p := range s.Snapshot.Problems {
		if !slices.Contains(before.Snapshot.Problems, p) {
			e := plan.Event{Kind: plan.EventHost, Error: true}
			if o := s.Observation(workload.ID(p.Subject)); o != nil {
				e.Workload = o.ID
			}
			s.event(e, words.ProblemSeen, p.Subject, p.Text)
		}
	}
	old, k := before.Plan.Report.Decisions, 0
	for i := range s.Plan.Report.Decisions { // both rise by workload
		d := &s.Plan.Report.Decisions[i]
		for k < len(old) && old[k].Workload < d.Workload {
			k++
		}
		var was *plan.Decision
		if k < len(old) && old[k].Workload == d.Workload {
			was = &old[k]
		}
		_, admitted := s.Admissions[d.Workload] // told of when it was placed
		if was != nil && sameOutcome(was, d) || was == nil && d.Outcome == plan.Kept && (admitted || before.concerned(d.Workload)) {
			continue
		}
		if s.passes(d) && !before.concerned(d.Workload) { // the flight recorder has it
			continue
		}
		s.tellDecision(d)
	}
	switch {
	case s.Halted.String() == before.Halted.String():
	case s.Halted.None():
		s.event(plan.Event{Kind: plan.EventPlan}, words.PlanSoundAgain)
	default:
		s.event(plan.Event{Kind: plan.EventPlan, Error: true}, s.Halted.Code, s.Halted.Args...)
	}
}

func (s *State) tellDecision(d *plan.Decision) {
	why := homes.Decided(d)
	s.event(plan.Event{Kind: plan.EventPlan, Workload: d.Workload, Error: d.Outcome == plan.Refused}, why.Code, why.Args...)
}

// sameOutcome: placed once and kept ever after is one decision, not two.
func sameOutcome(a, b *plan.Decision) bool {
	settled := func(o plan.Outcome) plan.Outcome {
		if o == plan.Kept {
			return plan.Placed
		}
		return o
	}
	return settled(a.Outcome) == settled(b.Outcome) && a.Home.Equal(b.Home)
}

func (s *State) tellHost(before, now *topology.Host) {
	if before == nil {
		for _, n := range now.Notes {
			s.event(plan.Event{Kind: plan.EventHost}, words.ProblemSeen, n.Subject, n.Text)
		}
		return
	}
	if off := before.Online.Minus(now.Online); !off.Empty() {
		s.event(plan.Event{Kind: plan.EventHost, Error: true}, words.CPUsOffline, off)
	}
	if on := now.Online.Minus(before.Online); !on.Empty() {
		s.event(plan.Event{Kind: plan.EventHost}, words.CPUsOnline, on)
	}
	for _, n := range now.Nodes {
		was := before.Node(n.ID)
		// The amount changes at every scan; only crossing the line is news.
		if nearlyFull(n) && (was == nil || !nearlyFull(*was)) {
			s.event(plan.Event{Kind: plan.EventHost, Error: true}, words.NodeNearlyFull, n.ID, int64(n.Free), int64(n.Memory))
		}
	}
}

// nearlyFull: under 2 % free the kernel is reclaiming (its watermarks lie at about 1 %,
// mm/page_alloc.c) and page moves to the node will fail.
func nearlyFull(n topology.Node) bool { return n.Free >= 0 && n.Free*50 < n.Memory }

// tellWorkloads tells which of the workloads that were given a home, or refused one, are
// gone. What else comes and goes is in the flight recorder.
func (s *State) tellWorkloads(was *State) {
	before, now, k := was.Snapshot.Observations, s.Snapshot.Observations, 0
	for i := range before { // both rise by ID
		id := before[i].ID
		for k < len(now) && now[k].ID < id {
			k++
		}
		here := k < len(now) && now[k].ID == id
		if here && was.Starts[i] == s.Starts[k] || !was.concerned(id) {
			continue
		}
		code := words.WorkloadGone
		if !here && slices.Contains(s.Snapshot.Shrunk, id) { // else another process has its PID
			code = words.WorkloadSmall
		}
		s.event(plan.Event{Kind: plan.EventWorkload, Workload: id}, code)
	}
}

// concerned reports whether homenode has given a workload a home, or refused it one.
func (s *State) concerned(id workload.ID) bool {
	all := s.Plan.Report.Decisions
	i, ok := decisionOf(all, id)
	return ok && !s.passes(&all[i]) || place.Of(s.Plan.Placements, id) != nil
}

// decisionOf is where the decision on a workload is, or would be.
func decisionOf(all []plan.Decision, id workload.ID) (int, bool) {
	return slices.BinarySearchFunc(all, id, func(d plan.Decision, id workload.ID) int { return cmp.Compare(d.Workload, id) })
}

// passes reports whether a decision gives no home to what nobody has asked one for: on a
// crowded host every compiler run is such a one.
func (s *State) passes(d *plan.Decision) bool {
	if d.Outcome != plan.Refused {
		return d.Outcome == plan.LeftAlone
	}
	i, ok := slices.BinarySearchFunc(s.Subjects, d.Workload, func(x *place.Subject, id workload.ID) int { return cmp.Compare(x.Observation.ID, id) })
	return ok && !s.Subjects[i].Spec.Given
}

// swing is how often it is told at most that a node is short, with nothing to be done, or
// that it no longer is: demand may swing about what is short for hours.
const swing = 10 * time.Minute

// tellBalance writes what is done about the load, and when the reason for doing nothing
// becomes another one.
func (s *State) tellBalance() {
	r := &s.Balancing
	e := plan.Event{Kind: plan.EventPlan}
	key := string(r.State)
	if r.Chosen != nil {
		e.Workload = r.Chosen.Changes[0].Workload
		for _, c := range r.Chosen.Changes {
			key += " " + string(c.Workload) + " " + c.To.String()
		}
	}
	calm := r.State == balance.NoChoice || r.State == balance.InOrder
	news := s.Balanced != key && (r.State != balance.NoChoice || s.Balanced == "" || s.Balanced == string(balance.InOrder))
	if news && calm && (s.Balanced == string(balance.NoChoice) || s.Balanced == string(balance.InOrder)) {
		if s.At.Sub(s.Swung) < swing {
			return
		}
		s.Swung = s.At
	}
	quiet := s.Balanced == "" && r.State != balance.Would && r.State != balance.Moves
	s.Balanced = key
	if news && !quiet && r.State != balance.Learning {
		v := r.Verdict()
		s.event(e, v.Code, v.Args...)
	}
}
