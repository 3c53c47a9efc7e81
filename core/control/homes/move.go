package homes

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// MovedByManager refuses to move a workload that only its manager can move.
func MovedByManager(id workload.ID, c *workload.Claim) *Refusal {
	if c == nil || !c.Fixed {
		return nil
	}
	return refuse(NoRoom, words.ManagerMoves, string(id), c.MovedBy)
}

// Order returns the plan that follows from an order, and what of it concerns the workload.
// homes is where everything is now.
func Order(
	in balance.Input, homes []workload.Placement, id workload.ID, to topology.NodeSet,
) (plan.Plan, *Moved, *Refusal) {
	for i, x := range in.Subjects {
		if x.Observation.ID == id && !x.Aside.None() { // a person who names it wants it placed
			named := *x
			named.Aside = words.Reason{}
			in.Subjects = slices.Clone(in.Subjects)
			in.Subjects[i] = &named
		}
	}
	next, d := balance.Order(in, id, to)
	answer := &Moved{Workload: id, Outcome: d.Outcome, Decision: d}
	if was := place.Of(homes, id); was != nil {
		answer.From, answer.FromCPUs = was.Home, was.CPUs
	}
	switch d.Outcome {
	case plan.Kept:
		answer.To, answer.CPUs = answer.From, answer.FromCPUs
		return next, answer, nil
	case plan.Placed:
	default:
		return next, answer, refuse(NoRoom, words.NotMoved, string(id), words.Join(d.Reasons))
	}
	bad := plan.CheckPlan(in.State, next)
	if len(bad) > 0 {
		return next, answer, refuse(Unsound, words.PlanUnsound, len(bad), bad[0].String())
	}
	p := place.Of(next.Placements, id)
	answer.To, answer.CPUs = p.Home, p.CPUs
	for _, step := range next.Steps {
		if step.Workload == id {
			answer.Steps = append(answer.Steps, step)
		}
	}
	return next, answer, nil
}

// Follow makes the plan of an order the newest one. seen is what the newest scan has seen.
func (h *Homes) Follow(next plan.Plan, order *Moved, seen *Scanned, at time.Time) Save {
	next.Placements = WithStartTimes(next.Placements, seen)
	past := balance.HomeChange{Workload: order.Workload, From: order.From, To: order.To, At: at.Round(0).UTC()}
	h.Orders = append(slices.Clip(h.Orders), past)
	h.Plan = next
	h.DropLedger()
	h.Choose(&order.Decision)
	return Save{
		Placements: h.SavePlacements(),
		Chosen:     h.AllChosen(),
		// The ban on going back outlives a daemon that ends before its next scan.
		Past: slices.Concat(h.History.Changes, h.Orders),
	}
}
