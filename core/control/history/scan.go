package history

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Scan writes what is new since the scan before.
func (l *Lines) Scan(h *Host, before, now *Seen, admitted map[workload.ID]scene.Admission) {
	l.hostChanged(h, before.Snapshot.Host, now.Snapshot.Host)
	l.workloads(h, before, now)
	for _, p := range now.Snapshot.Problems {
		if !slices.Contains(before.Snapshot.Problems, p) {
			e := plan.Event{Kind: plan.EventHost, Error: true}
			if o := h.Scene.Observation(workload.ID(p.Subject)); o != nil {
				e.Workload = o.ID
			}
			l.Event(h, e, words.ProblemSeen, p.Subject, p.Text)
		}
	}
	l.decisions(h, before, now, admitted)
	switch {
	case now.Halted.String() == before.Halted.String():
	case now.Halted.None():
		l.Event(h, plan.Event{Kind: plan.EventPlan}, words.PlanSoundAgain)
	default:
		l.Event(h, plan.Event{Kind: plan.EventPlan, Error: true}, now.Halted.Code, now.Halted.Args...)
	}
}

// decisions writes what was decided otherwise than at the scan before.
func (l *Lines) decisions(h *Host, before, now *Seen, admitted map[workload.ID]scene.Admission) {
	old := before.Plan.Report.Decisions
	all := now.Plan.Report.Decisions
	k := 0
	if len(all) > 0 && len(all) == len(old) && &all[0] == &old[0] { // the plan still holds
		return
	}
	for i := range all { // both rise by workload
		d := &all[i]
		for k < len(old) && old[k].Workload < d.Workload {
			k++
		}
		var was *plan.Decision
		if k < len(old) && old[k].Workload == d.Workload {
			was = &old[k]
		}
		_, admitted := admitted[d.Workload] // reported when it was placed
		if (was != nil && sameOutcome(was, d)) ||
			(was == nil && d.Outcome == plan.Kept && (admitted || before.concerned(d.Workload))) {
			continue
		}
		if now.passes(d) && !before.concerned(d.Workload) { // the flight recorder has it
			continue
		}
		l.decision(h, d)
	}
}

func (l *Lines) decision(h *Host, d *plan.Decision) {
	why := homes.Decided(d)
	l.Event(h, plan.Event{Kind: plan.EventPlan, Workload: d.Workload, Error: d.Outcome == plan.Refused}, why.Code,
		why.Args...)
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

func (l *Lines) hostChanged(h *Host, before, now *topology.Host) {
	if before == nil {
		for _, n := range now.Notes {
			l.Event(h, plan.Event{Kind: plan.EventHost}, words.ProblemSeen, n.Subject, n.Text)
		}
		return
	}
	if off := before.Online.Minus(now.Online); !off.Empty() {
		l.Event(h, plan.Event{Kind: plan.EventHost, Error: true}, words.CPUsOffline, off)
	}
	if on := now.Online.Minus(before.Online); !on.Empty() {
		l.Event(h, plan.Event{Kind: plan.EventHost}, words.CPUsOnline, on)
	}
	for _, n := range now.Nodes {
		was := before.Node(n.ID)
		// The amount changes at every scan; only crossing the line is news.
		if nearlyFull(n) && (was == nil || !nearlyFull(*was)) {
			l.Event(h, plan.Event{Kind: plan.EventHost, Error: true}, words.NodeNearlyFull, n.ID, int64(n.Free),
				int64(n.Memory))
		}
	}
}

// nearlyFull: under 2 % free the kernel is reclaiming (its watermarks lie at about 1 %,
// mm/page_alloc.c) and page moves to the node will fail.
func nearlyFull(n topology.Node) bool { return n.Free >= 0 && n.Free*50 < n.Memory }

// workloads tells which of the workloads that were given a home, or refused one, are
// gone. What else comes and goes is in the flight recorder.
func (l *Lines) workloads(h *Host, was, is *Seen) {
	now := workload.Lives{All: is.Lives}
	for i := range was.Lives { // both rise by ID
		id := was.Lives[i].ID
		k, here := now.Find(id)
		same := here && was.Lives[i].Start == is.Lives[k].Start
		if same || !was.concerned(id) {
			continue
		}
		code := words.WorkloadGone
		if !here && slices.Contains(is.Snapshot.Shrunk, id) { // else another process has its PID
			code = words.WorkloadSmall
		}
		l.Event(h, plan.Event{Kind: plan.EventWorkload, Workload: id}, code)
	}
}

// concerned reports whether homenode has given a workload a home, or refused it one.
func (s *Seen) concerned(id workload.ID) bool {
	all := s.Plan.Report.Decisions
	i, ok := decisionOf(all, id)
	return (ok && !s.passes(&all[i])) || place.Of(s.Plan.Placements, id) != nil
}

// decisionOf is where the decision on a workload is, or would be.
func decisionOf(all []plan.Decision, id workload.ID) (int, bool) {
	return slices.BinarySearchFunc(all, id,
		func(d plan.Decision, id workload.ID) int { return cmp.Compare(d.Workload, id) })
}

// passes reports whether a decision gives no home to what nobody has asked one for: on a
// crowded host every compiler run is such a one.
func (s *Seen) passes(d *plan.Decision) bool {
	if d.Outcome != plan.Refused {
		return d.Outcome == plan.LeftAlone
	}
	x := place.SubjectOf(s.Subjects, d.Workload)
	return x != nil && !x.Spec.Given
}
