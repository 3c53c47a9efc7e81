package view

import (
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// WouldFit says of each workload where it would go, on top of those before it. Nothing is
// booked.
func (v *View) WouldFit(specs []workload.Spec) ([]homes.Fit, *work.Failure) {
	q := homes.Question{State: v.booked(), Subjects: v.Subjects, Spec: v.SpecOf, Stay: v.stays}
	fits, bad := q.WouldFit(specs)
	return fits, FailureOf(bad)
}

// stays returns why a workload must not move to make room; "" when it may.
func (v *View) stays(id workload.ID) string {
	if bad := homes.MovedByManager(id, v.Claims[id]); bad != nil {
		return bad.Why
	}
	if v.Holds.Has(id) {
		return words.Because(words.HeldByHand).String()
	}
	return ""
}

// WouldMove is what an order to move would lead to, with what stands in the way as its Outcome:
// Refused or LeftAlone. Failures are of the question.
func (v *View) WouldMove(name workload.ID, to topology.NodeSet, of workload.Lineage) (*homes.Moved, *work.Failure) {
	o, f := v.Find(name, of)
	switch {
	case f != nil:
		return nil, f
	case to.Empty():
		return nil, work.Refuse(work.BadRequest, words.NameNodes)
	}
	if homes.MovedByManager(o.ID, v.Claims[o.ID]) != nil {
		why := words.Because(words.ManagerMoves, string(o.ID), v.Claims[o.ID].MovedBy)
		d := plan.Decision{Workload: o.ID, Outcome: plan.Refused, Reasons: words.Reasons(why)}
		return &homes.Moved{Workload: o.ID, Outcome: plan.Refused, Decision: d}, nil
	}
	in := balance.Input{State: v.booked(), Subjects: v.Subjects, Arrange: v.Settings.Arrange}
	_, moved, bad := homes.Order(in, v.Plan.Placements, o.ID, to)
	if bad != nil && bad.Kind == homes.NoRoom { // the decision says why
		bad = nil
	}
	return moved, FailureOf(bad)
}

// FailureOf returns a refusal of package homes as a failure.
func FailureOf(r *homes.Refusal) *work.Failure {
	if r == nil {
		return nil
	}
	code := work.Failed
	switch r.Kind {
	case homes.Malformed:
		code = work.BadRequest
	case homes.NoRoom:
		code = work.NoRoom
	}
	return &work.Failure{Code: code, Text: r.Why}
}
