package control

import (
	"slices"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Fit is whether a workload that does not run would find a home, and what would have to move
// for it.
type Fit struct {
	Spec workload.Spec
	place.Repacking
}

const (
	// MostAsked is how many workloads one question may be about.
	MostAsked = 32
	// fitSteps is what the search for moves may take for all of them: about half a second on
	// a host of 8 nodes (place.DefaultSteps).
	fitSteps = place.DefaultSteps
)

// WouldFit says of each workload where it would go, on top of those before it. Nothing is
// booked.
func (v *View) WouldFit(specs []workload.Spec) ([]Fit, *Failure) {
	if v.facts.Host == nil {
		return nil, refuse(Failed, words.NotScannedYet)
	}
	if len(specs) > MostAsked {
		return nil, refuse(BadRequest, words.BadValue, "spec", len(specs), "32 workloads or fewer")
	}
	st := v.booked()
	var running []place.Runner
	for i := range st.Placements {
		p := &st.Placements[i]
		if slices.ContainsFunc(specs, func(s workload.Spec) bool { return s.ID == p.Workload }) {
			return nil, refuse(BadRequest, words.RunsAlready, string(p.Workload))
		}
		spec := v.SpecOf(p.Workload)
		if spec.ID == "" || p.Class == workload.Batch { // held for what has not come, or anywhere
			continue
		}
		spec.CPUs, spec.Memory = p.VCPUs, p.Asked
		r := place.Runner{Spec: spec}
		if v.Holds.Has(p.Workload) {
			r.Stay = words.Because(words.HeldByHand).String()
		}
		if f := movedByManager(p.Workload, v.Claims[p.Workload]); f != nil {
			r.Stay = f.Text
		}
		running = append(running, r)
	}
	l := place.NewLedger(st)
	l.Measure(v.Subjects)
	var out []Fit
	for _, s := range specs {
		r := l.Repack(place.Request{Spec: s}, place.RepackOptions{Running: running, Steps: fitSteps / len(specs)})
		for i := range r.Moves {
			l.Commit(r.Moves[i].To)
		}
		if r.Admitted() {
			l.Commit(r.Result.Placement)
			running = append(running, place.Runner{Spec: s})
		}
		out = append(out, Fit{s, r})
	}
	return out, nil
}

// WouldMove is what an order to move would lead to, with what stands in the way as its Outcome:
// Refused or LeftAlone. Failures are of the question.
func (v *View) WouldMove(name workload.ID, to topology.NodeSet, of workload.Lineage) (*Moved, *Failure) {
	o, f := v.Find(name, of)
	switch {
	case f != nil:
		return nil, f
	case to.Empty():
		return nil, refuse(BadRequest, words.NameNodes)
	}
	if f := movedByManager(o.ID, v.Claims[o.ID]); f != nil {
		return &Moved{Workload: o.ID, Outcome: plan.Refused, Decision: plan.Decision{Workload: o.ID, Outcome: plan.Refused,
			Reasons: words.Reasons(words.Because(words.ManagerMoves, string(o.ID), v.Claims[o.ID].MovedBy))}}, nil
	}
	in := balance.Input{State: v.booked(), Subjects: v.Subjects, Arrange: v.Settings.Arrange}
	_, moved, f := orderOn(in, v.Plan.Placements, o.ID, to)
	if f != nil && f.Code == NoRoom { // the decision says why
		f = nil
	}
	return moved, f
}
