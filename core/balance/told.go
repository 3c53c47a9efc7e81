package balance

import (
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Told is the change of home that an operator orders: the workload goes to the
// best home within the nodes named, dedicated work too, if the ledger holds it
// there and nobody else loses a home by it. Load, ban and cooldown do not count.
// The decision is Placed, Kept (it has that home already), Refused or LeftAlone,
// with the reasons; the plan is to be carried out when it is Placed.
func Told(in Input, id workload.ID, nodes topology.NodeSet) (plan.Plan, plan.Decision) {
	first := place.Arrange(in.State, in.Subjects, in.Arrange)
	refuse := func(format string, a ...any) (plan.Plan, plan.Decision) {
		return first, plan.Decision{Workload: id, Outcome: plan.Refused, Reasons: []string{fmt.Sprintf(format, a...)}}
	}
	k := slices.IndexFunc(in.Subjects, func(s place.Subject) bool { return s.Observation.ID == id })
	if k < 0 {
		return refuse("There is no such workload.")
	}
	s := &in.Subjects[k]
	j := slices.IndexFunc(first.Report.Decisions, func(d plan.Decision) bool { return d.Workload == id })
	if d := first.Report.Decisions[j]; d.Outcome != plan.Placed && d.Outcome != plan.Kept {
		return first, d
	}
	st := in.State
	st.Placements = first.Placements
	old := st.Placements[slices.IndexFunc(st.Placements, func(p plan.Placement) bool { return p.Workload == id })]
	if old.Class == workload.Offline {
		return refuse("It is offline work, which has no home of its own.")
	}
	if why := within(in.State.Host, s, &old, nodes); why != "" {
		return refuse("%s", why)
	}
	ledger := place.NewLedger(st)
	for i := range in.Subjects {
		if o := &in.Subjects[i].Observation; !hasHome(first.Placements, o.ID) {
			ledger.AddForeign(o)
		}
	}
	spec := s.Spec
	if !spec.Nodes.Empty() {
		nodes = nodes.Intersect(spec.Nodes)
	}
	spec.ID, spec.CPUs, spec.Memory, spec.Nodes, spec.MaxNodes = id, old.VCPUs, old.Asked, nodes, nodes.Len()
	r := ledger.Place(place.Request{Spec: spec, Memory: s.Observation.Memory, Must: true})
	if !r.Placed() || r.Decision.Outcome == plan.Kept {
		return first, r.Decision
	}
	p := r.Placement
	p.Start, p.Bound = old.Start, old.Bound
	out, why := rehome(&in, first, []plan.Placement{p})
	if why != "" {
		return refuse("%s", why)
	}
	d := r.Decision
	d.Reasons = append([]string{fmt.Sprintf("It was told to move from node %s to node %s.", old.Home, p.Home)}, d.Reasons...)
	if policy := s.Observation.OwnPolicy; policy != "" && policy != workload.PolicyUnknown {
		d.Reasons = append(d.Reasons, fmt.Sprintf("It has a memory policy of its own (%s): what it allocates later follows that, not its home.", policy))
	}
	for i := range out.Report.Decisions {
		if out.Report.Decisions[i].Workload == id {
			out.Report.Decisions[i] = d
		}
	}
	return out, d
}

// within is why a workload may not live on the nodes named, or "".
func within(h *topology.Host, s *place.Subject, old *plan.Placement, nodes topology.NodeSet) string {
	for n := range nodes.All() {
		if !slices.ContainsFunc(h.Nodes, func(have topology.Node) bool { return have.ID == n }) {
			return fmt.Sprintf("There is no node %d.", n)
		}
	}
	if !s.Spec.Nodes.Empty() && !nodes.Intersects(s.Spec.Nodes) {
		return fmt.Sprintf("It may use node %s only.", s.Spec.Nodes)
	}
	// Homenode itself narrows the memory nodes of dedicated work, and then widens them.
	if o := &s.Observation; !old.Bound && !o.Mems.Empty() && !nodes.SubsetOf(o.Mems) {
		return fmt.Sprintf("It may have memory on node %s only (cpuset.mems).", o.Mems)
	}
	return ""
}
