package nextstart

import (
	"maps"
	"slices"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Concern decides on definitions. It remembers nothing.
type Concern struct{}

// turn is one decision.
type turn struct {
	*concern.Scene
	busy map[workload.ID]bool // the plan has its steps
}

// Name implements concern.Concern.
func (Concern) Name() string { return "next start" }

// Owns implements concern.Concern.
func (Concern) Owns(*plan.Entry) bool { return false }

// Ended implements concern.Concern.
func (Concern) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

// Decide implements concern.Concern. Workloads that run come to their homes first; those that are off
// get the best home there is.
func (Concern) Decide(sc *concern.Scene) (out concern.Desired) {
	if !sc.Acts || sc.Between {
		return out
	}
	t := &turn{sc, map[workload.ID]bool{}}
	for i := range sc.Plan.Steps {
		t.busy[sc.Plan.Steps[i].Workload] = true
	}
	for _, step := range t.steps() {
		out.Settings = append(out.Settings, concern.Desire{Kind: plan.GuestDefinition, Path: string(step.Workload),
			Step: step, Stands: concern.No})
	}
	return out
}

// steps returns a step for each definition that is to change.
func (t *turn) steps() []plan.Step {
	var steps []plan.Step
	var ledger *place.Ledger
	writes := map[workload.ID]bool{} // of parts: what is written of one is read by the next
	for _, id := range slices.Sorted(maps.Keys(t.Claims)) {
		c := t.Claims[id]
		if c.Part != nil && (writes[c.Part.Of] || t.Redefines(c.Part.Of)) {
			continue
		}
		if !c.Caps.NextStart || c.Next == nil || !c.Next.Alone.None() {
			continue
		}
		if t.Held(id) || t.busy[id] || t.Busy(id) || t.Changing(id) {
			continue
		}
		o := workload.Observation{ID: id, Name: c.Name, Kind: c.Driver}
		if !c.Alone.None() || !t.LeftAlone(&o, c.Names()).None() {
			continue
		}
		shared := c.Spec != nil && c.Spec.Class == workload.Shared && c.Next.Spec.Class == workload.Shared
		if !shared {
			continue
		}
		p, why := place.Of(t.Homes(), id), words.Because(words.NextStartRuns)
		if !c.Running {
			if ledger == nil {
				st := *t.Facts
				st.Placements = t.Homes()
				ledger = place.NewLedger(st)
			}
			p, why = restingHome(ledger, c.Next)
		}
		if p == nil {
			continue
		}
		from := c.Next.CPUs.String() + "/" + c.Next.Mems.String()
		nodes := scene.MemoryNodes(t.Snapshot.Host, p)
		if c.Caps.MemoryStays {
			nodes = c.Next.Mems
		}
		to := p.CPUs.String() + "/" + nodes.String()
		if from != to || !c.Next.Ours {
			if c.Part != nil {
				writes[c.Part.Of] = true
			}
			steps = append(steps, plan.Step{Kind: plan.SetNext, Workload: id, Target: plan.Target{Kind: c.Driver},
				From: from, To: to, Reason: why})
		}
	}
	return steps
}

// restingHome returns where a workload that is off belongs: where its next start is as long
// as that holds, else the best there is. It books nothing.
func restingHome(l *place.Ledger, n *workload.Next) (*workload.Placement, words.Reason) {
	r := place.Request{Spec: n.Spec, Must: true}
	if n.Ours && n.Home != nil {
		nodes := n.Home.Home
		r.Spec.Nodes = nodes
		if res := l.Place(r); res.Placed() && res.Placement.Home.Equal(nodes) {
			return &res.Placement, words.Because(words.NextStartHolds)
		}
		r.Spec.Nodes = n.Spec.Nodes
	}
	res := l.Place(r)
	if !res.Placed() {
		return nil, words.Reason{}
	}
	return &res.Placement, words.Because(words.NextStartBest)
}
