package control

import (
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// nextStarts is the steps that write where workloads will be when they are started next,
// so that the first page falls there: those that run, once they have come to their homes,
// and those that are off.
func (s *State) nextStarts(busy map[workload.ID]bool) []plan.Step {
	var steps []plan.Step
	var ledger *place.Ledger
	writes := map[workload.ID]bool{} // of parts: what is written of one is read by the next
	for _, id := range sortedKeys(s.Claims) {
		c := s.Claims[id]
		if c.Part != nil && (writes[c.Part.Of] || s.writesPart(c.Part.Of)) {
			continue
		}
		if !c.Caps.NextStart || c.Next == nil || !c.Next.Alone.None() || s.Holds.Has(id) || busy[id] || s.Tasks[id] != nil || s.changing(id) {
			continue
		}
		o := workload.Observation{ID: id, Name: c.Name, Kind: c.Driver}
		if !c.Alone.None() || !s.leave(&o).None() || c.Spec == nil || c.Spec.Class != workload.Shared || c.Next.Spec.Class != workload.Shared {
			continue
		}
		p, why := place.Of(s.Placements(), id), words.Because(words.NextStartRuns)
		if !c.Running {
			if ledger == nil {
				st := s.Facts
				st.Placements = s.Placements()
				ledger = place.NewLedger(st)
			}
			p, why = restingHome(ledger, c.Next)
		}
		if p == nil {
			continue
		}
		from := c.Next.CPUs.String() + "/" + c.Next.Mems.String()
		nodes := memoryNodes(s.Snapshot.Host, p)
		if c.Caps.MemoryStays {
			nodes = c.Next.Mems
		}
		to := p.CPUs.String() + "/" + nodes.String()
		if from != to || !c.Next.Ours {
			if c.Part != nil {
				writes[c.Part.Of] = true
			}
			steps = append(steps, plan.Step{Kind: plan.SetNext, Workload: id, Target: plan.Target{Kind: c.Driver}, From: from, To: to, Reason: why})
		}
	}
	return steps
}

// writesPart reports whether a workload, or a part of it, is being changed: all have one
// definition.
func (s *State) writesPart(whole workload.ID) bool {
	for id, t := range s.Tasks {
		if id.Is(whole) && (t.Request != 0 || t.Step().Kind == plan.SetNext) {
			return true
		}
	}
	return s.changing(whole)
}

// restingHome is where a workload that is off belongs: where its next start is as long
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
