package balance

import (
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Order computes the change of home that the user orders. The workload, dedicated work too, goes to
// the best home within the given nodes, if the ledger has room there and no other workload loses
// its home. Load, ban and cooldown do not count. The decision is Placed, Kept (it already has that
// home), Refused or LeftAlone, with reasons; the plan applies only when it is Placed.
func Order(in Input, id workload.ID, nodes topology.NodeSet) (plan.Plan, plan.Decision) {
	first := arrange.Arrange(in.State, in.Subjects, in.Arrange)
	refuse := func(why words.Reason) (plan.Plan, plan.Decision) {
		return first, plan.Decision{Workload: id, Outcome: plan.Refused, Reasons: words.Reasons(why)}
	}
	k := slices.IndexFunc(in.Subjects, func(s *place.Subject) bool { return s.Observation.ID == id })
	if k < 0 {
		return refuse(words.Because(words.NoSuchWorkload))
	}
	s := in.Subjects[k]
	j := slices.IndexFunc(first.Report.Decisions, func(d plan.Decision) bool { return d.Workload == id })
	if d := first.Report.Decisions[j]; d.Outcome != plan.Placed && d.Outcome != plan.Kept {
		return first, d
	}
	st := in.State
	st.Placements = first.Placements
	old := st.Placements[slices.IndexFunc(st.Placements, func(p plan.Placement) bool { return p.Workload == id })]
	if old.Class == workload.Batch {
		return refuse(words.Because(words.BatchHomeless))
	}
	if why := within(in.State.Host, s, &old, nodes); !why.None() {
		return refuse(why)
	}
	ledger := place.NewLedger(st)
	for i := range in.Subjects {
		if o := &in.Subjects[i].Observation; !hasHome(first.Placements, o.ID) {
			ledger.AddForeign(o)
		}
	}
	ledger.Measure(in.Subjects)
	spec := s.Spec
	if !spec.Nodes.Empty() {
		nodes = nodes.Intersect(spec.Nodes)
	}
	spec.ID = id
	spec.CPUs = old.VCPUs
	spec.Memory = old.Asked
	spec.Nodes = nodes
	spec.MaxNodes = nodes.Len()
	r := ledger.Place(place.Request{Spec: spec, Memory: s.Observation.Memory, Must: true})
	now := place.Of(in.State.Placements, id) // nil for work that a person alone places
	there := r.Decision.Outcome == plan.Kept && now != nil && now.Home.Equal(old.Home)
	if !r.Placed() || there {
		return first, r.Decision
	}
	p := r.Placement
	p.Start, p.Bound = old.Start, old.Bound
	out, why := rehome(&in, first, []plan.Placement{p})
	if !why.None() {
		return refuse(why)
	}
	d := r.Decision
	d.Outcome = plan.Placed
	why = words.Because(words.Ordered, old.Home, p.Home)
	if p.Home.Equal(old.Home) { // homenode would have chosen it, too
		why = words.Because(words.OrderedTo, p.Home)
	}
	d.Reasons = append([]words.Reason{why}, d.Reasons...)
	if s.Observation.HasPolicy() {
		d.Reasons = append(d.Reasons, words.Because(words.PolicyKeeps, s.Observation.OwnPolicy))
	}
	for i := range out.Report.Decisions {
		if out.Report.Decisions[i].Workload == id {
			out.Report.Decisions[i] = d
		}
	}
	return out, d
}

// within is why a workload may not live on the nodes named, or none.
func within(h *topology.Host, s *place.Subject, old *plan.Placement, nodes topology.NodeSet) words.Reason {
	for n := range nodes.All() {
		if !slices.ContainsFunc(h.Nodes, func(have topology.Node) bool { return have.ID == n }) {
			return words.Because(words.NoSuchNode, n)
		}
	}
	if !s.Spec.Nodes.Empty() && !nodes.Intersects(s.Spec.Nodes) {
		return words.Because(words.NodesOnly, s.Spec.Nodes)
	}
	// Homenode itself narrows the memory nodes of dedicated work, and then widens them.
	if o := &s.Observation; !old.Bound && !o.Caps.Rebinds && !o.Mems.Empty() && !nodes.SubsetOf(o.Mems) {
		return words.Because(words.MemsOnly, o.Mems)
	}
	return words.Reason{}
}
