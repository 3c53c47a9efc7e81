package arrange

import (
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Arranger arranges one host scan after scan. Its plans are those of Arrange: it only remembers the newest one, which
// still holds if nothing relevant has changed. The zero Arranger remembers nothing. It is for one
// goroutine.
type Arranger struct {
	settled   bool // the newest plan is; the other fields are only read then
	newest    *arrangement
	subjects  []*place.Subject
	decisions []plan.Decision
	booked    []topology.KiB // by ID of the node; integers, so that their sum does not depend on the order
	changed   []changed
}

// changed is a subject that has changed since the newest plan, judged anew.
type changed struct {
	at int
	subject
	decision plan.Decision
}

// Arrange returns the plan of the function Arrange.
func (r *Arranger) Arrange(st plan.State, subjects []*place.Subject, opt Options) plan.Plan {
	if r.settled && r.stillHolds(&st, subjects, opt) {
		return plan.Plan{Placements: st.Placements, Report: plan.Report{Decisions: r.decisions}}
	}
	r.settled = false
	a, out := arrange(st, subjects, opt)
	r.remember(a, subjects, &out)
	return out
}

// remember keeps a plan that is settled: every workload stays as it is, in its home or left alone. Then no workload
// influenced the decision on another, except by the room that all need together.
func (r *Arranger) remember(a *arrangement, subjects []*place.Subject, out *plan.Plan) {
	if len(out.Steps) > 0 || len(a.subjects) != len(subjects) || len(a.absent) > 0 {
		return
	}
	if a.was == nil || !sameList(a.was, out.Placements) {
		return
	}
	r.booked = append(r.booked[:0], make([]topology.KiB, len(a.homesAt))...)
	for i := range a.subjects {
		s := &a.subjects[i]
		switch {
		case s.Subject != subjects[i]: // they were not sorted
			return
		case s.isKept():
			r.booked[s.old.Home.Min()] += workload.Total(s.old.Memory)
		case !s.isLeft():
			return
		}
	}
	r.newest = a
	r.subjects = subjects
	r.decisions = a.decisions
	r.settled = true
}

// isKept reports whether a subject stays in its home with nothing to be done.
func (s *subject) isKept() bool { return s.asBefore.kept && s.asBefore.stays }

// isLeft reports whether a subject is left alone and holds nothing.
func (s *subject) isLeft() bool {
	return s.turn == never && s.old == nil && s.decision.Outcome == plan.LeftAlone && !s.held
}

// stillHolds reports whether the newest plan still holds, and if so brings it up to date.
func (r *Arranger) stillHolds(st *plan.State, subjects []*place.Subject, opt Options) bool {
	a := r.newest
	if !sameList(a.was, st.Placements) || opt != a.opt || len(subjects) != len(r.subjects) {
		return false
	}
	if !st.Host.SameMachine(a.host) || !st.Policy.Equal(&a.policy) || !r.hasRoom(st) {
		return false
	}
	a.host = st.Host
	r.changed = r.changed[:0]
	for i, x := range subjects {
		if x == r.subjects[i] {
			continue
		}
		if x.Observation.ID != r.subjects[i].Observation.ID || !r.judge(i, x) {
			return false
		}
	}
	r.takeUp(subjects)
	return true
}

// sameList reports whether two lists of placements are one. They are never changed in place.
func sameList(x, y []plan.Placement) bool {
	return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
}

// hasRoom reports whether the memory of every node is still enough for all that is booked there. CPUs are: they only
// depend on the machine and on the policy.
func (r *Arranger) hasRoom(st *plan.State) bool {
	for i, room := range plan.Capacity(*st) {
		if room >= 0 && r.booked[st.Host.Nodes[i].ID] > room {
			return false
		}
	}
	return true
}

// judge decides on a changed subject, and reports whether its kind of decision stays the same.
func (r *Arranger) judge(i int, x *place.Subject) bool {
	a := r.newest
	was := &a.subjects[i]
	c := changed{at: i, subject: subject{Subject: x, old: was.old}}
	c.subject.decision = &c.decision
	a.leave(&c.subject)
	isDedicated, wasDedicated := x.Spec.Class == workload.Dedicated, was.Spec.Class == workload.Dedicated
	switch {
	case isDedicated != wasDedicated: // see openToAll
		return false
	case was.isKept():
		if c.turn != floatingNext || !c.asBefore.may || !c.asBefore.stays {
			return false
		}
		c.asBefore.kept = true
	case !c.isLeft():
		return false
	}
	r.changed = append(r.changed, c)
	return true
}

// takeUp replaces the changed subjects. Readers hold the decisions of before: those are copied first.
func (r *Arranger) takeUp(subjects []*place.Subject) {
	a := r.newest
	r.subjects = subjects
	own := false
	for k := range r.changed {
		c := &r.changed[k]
		s := &a.subjects[c.at]
		s.Subject, s.asBefore = c.Subject, c.asBefore
		if s.isKept() { // the decision goes by the placement alone
			continue
		}
		if !own {
			own = true
			r.decisions = append(make([]plan.Decision, 0, len(r.decisions)), r.decisions...)
		}
		r.decisions[c.at] = c.decision
	}
}
