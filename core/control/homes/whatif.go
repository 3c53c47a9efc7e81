package homes

import (
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
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
	// MostAsked is how many workloads one question may name.
	MostAsked = 32
	// fitSteps is what the search for moves may take for all of them: about half a second on
	// a host of 8 nodes (place.DefaultSteps).
	fitSteps = place.DefaultSteps
)

// Question is a host as what-if questions find it.
type Question struct {
	State    plan.State       // with all that have a home or are held one
	Subjects []*place.Subject // of the newest scan
	Spec     func(workload.ID) workload.Spec
	Stay     func(workload.ID) string // why a workload must not move; "" when it may
}

// WouldFit says of each workload where it would go, on top of those before it. Nothing is
// booked.
func (q *Question) WouldFit(specs []workload.Spec) ([]Fit, *Refusal) {
	if q.State.Host == nil {
		return nil, refuse(TooEarly, words.NotScannedYet)
	}
	if len(specs) > MostAsked {
		return nil, badValue("spec", len(specs), "32 workloads or fewer")
	}
	for i := range q.State.Placements {
		p := &q.State.Placements[i]
		if slices.ContainsFunc(specs, func(s workload.Spec) bool { return s.ID == p.Workload }) {
			return nil, refuse(Malformed, words.RunsAlready, string(p.Workload))
		}
	}
	running := q.running()
	l := place.NewLedger(q.State)
	l.Measure(q.Subjects)
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

// running returns the workloads that may make room.
func (q *Question) running() []place.Runner {
	var out []place.Runner
	for i := range q.State.Placements {
		p := &q.State.Placements[i]
		spec := q.Spec(p.Workload)
		if spec.ID == "" || p.Class == workload.Batch { // held for what has not come, or anywhere
			continue
		}
		spec.CPUs, spec.Memory = p.VCPUs, p.Asked
		out = append(out, place.Runner{Spec: spec, Stay: q.Stay(p.Workload)})
	}
	return out
}
