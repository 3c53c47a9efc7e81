package balance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Outcome is what a tick decided.
type Outcome struct {
	Plan   plan.Plan `json:"plan"`
	Report Report    `json:"report"`
}

// Tick is one round: first homes and steps by place.Arrange, then at most one
// change of homes that hold. Same arguments, same outcome; it changes neither.
func Tick(in Input, memory Memory) (Outcome, Memory) {
	next := remember(&in, memory)
	next.Past = append(next.Past, in.Told...)
	first := place.Arrange(in.State, in.Subjects, in.Arrange)
	report, homes := decide(&in, first.Placements, &next)
	out := Outcome{Plan: first, Report: report}
	if report.State == Moves {
		if moved, why := rearrange(&in, first, homes, &report); why == "" {
			out.Plan = moved
		} else {
			out.Report.State, out.Report.Quiet = NoChoice, why
			out.Report.Chosen.Rejected = why
			out.Report.Weighed = append([]Candidate{*out.Report.Chosen}, out.Report.Weighed...)
			out.Report.Chosen = nil
		}
	}
	if in.Settings.Act {
		next.Past = append(next.Past, changed(&in, out.Plan.Placements)...)
	}
	return out, next
}

// remember is the memory with this look, without what is too old to count.
func remember(in *Input, old Memory) Memory {
	h := in.State.Host
	look := Look{At: in.At, Traffic: in.Traffic, Busy: make([]float64, len(h.Nodes)), Free: make([]topology.KiB, len(h.Nodes))}
	look.Uses = make([]Use, 0, len(in.Subjects))
	at := map[topology.NodeID]int{}
	for i := range h.Nodes {
		look.Free[i] = freeOf(&h.Nodes[i])
		at[h.Nodes[i].ID] = i
	}
	for i := range in.Subjects {
		s := &in.Subjects[i]
		o := &s.Observation
		look.Uses = append(look.Uses, Use{Workload: o.ID, CPUs: o.CPUUse, Bandwidth: o.Bandwidth, Accesses: o.Accesses.PerSecond, Level: o.CPUUse, Since: in.At})
		if s.Spec.Class == workload.Offline {
			continue
		}
		for _, r := range o.RanOn {
			if k, ok := at[r.Node]; ok {
				look.Busy[k] += r.Share * o.CPUUse
			}
		}
	}
	slices.SortFunc(look.Uses, func(x, y Use) int { return cmp.Compare(x.Workload, y.Workload) })
	var next Memory
	for _, l := range old.Looks { // a clock set back, or other nodes, begin the window anew
		if len(l.Busy) == len(look.Busy) && l.At.Before(in.At) {
			next.Looks = append(next.Looks, l)
		}
	}
	if n := len(next.Looks); n > 0 {
		keepLevels(next.Looks[n-1].Uses, look.Uses)
	}
	next.Looks = append(next.Looks, look)
	for len(next.Looks) > leastLooks && !next.Looks[1].At.After(in.At.Add(-in.Settings.Window)) {
		next.Looks = next.Looks[1:]
	}
	for _, p := range old.Past {
		if age := in.At.Sub(p.At); age >= 0 && age < max(time.Hour, in.Settings.Ban) {
			next.Past = append(next.Past, p)
		}
	}
	return next
}

// rearrange is rehome with the reasons of balancing.
func rearrange(in *Input, first plan.Plan, homes []plan.Placement, r *Report) (plan.Plan, string) {
	out, why := rehome(in, first, homes)
	if why != "" {
		return first, why
	}
	for k := range out.Report.Decisions {
		dec := &out.Report.Decisions[k]
		if slices.ContainsFunc(homes, func(p plan.Placement) bool { return p.Workload == dec.Workload }) {
			dec.Reasons = []string{"Balancing: " + r.Chosen.Words() + ".", r.because(), r.Chosen.Reason}
		}
	}
	return out, ""
}

// rehome lets place.Arrange make the steps to new homes. Nobody else may lose a
// home by it.
func rehome(in *Input, first plan.Plan, homes []plan.Placement) (plan.Plan, string) {
	st := in.State
	st.Placements = slices.Clone(first.Placements)
	moved := map[workload.ID]bool{}
	for _, p := range homes {
		k, _ := slices.BinarySearchFunc(st.Placements, p.Workload, func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
		st.Placements[k] = p
		moved[p.Workload] = true
	}
	second := place.Arrange(st, in.Subjects, in.Arrange)
	if len(second.Placements) != len(st.Placements) {
		return first, "With the new homes others would lose theirs."
	}
	for k := range second.Placements {
		if p, want := &second.Placements[k], &st.Placements[k]; p.Class != workload.Offline && !p.Home.Equal(want.Home) {
			return first, fmt.Sprintf("With the new homes %s would lose its own.", p.Workload)
		}
	}
	was := map[workload.ID]*plan.Decision{}
	for k := range first.Report.Decisions {
		was[first.Report.Decisions[k].Workload] = &first.Report.Decisions[k]
	}
	for k := range second.Report.Decisions {
		dec := &second.Report.Decisions[k]
		if moved[dec.Workload] {
			dec.Outcome = plan.Placed
		} else if w := was[dec.Workload]; w != nil { // placed a moment ago: say why
			*dec = *w
		}
	}
	return second, ""
}

// changed is the homes that are others than before, whoever chose them.
func changed(in *Input, now []plan.Placement) []Past {
	before := make(map[workload.ID]topology.NodeSet, len(in.State.Placements))
	for i := range in.State.Placements {
		if p := &in.State.Placements[i]; p.Class != workload.Offline {
			before[p.Workload] = p.Home
		}
	}
	var out []Past
	for i := range now {
		p := &now[i]
		if from, had := before[p.Workload]; had && p.Class != workload.Offline && !from.Equal(p.Home) {
			out = append(out, Past{Workload: p.Workload, From: from, To: p.Home, At: in.At})
		}
	}
	return out
}

// keepLevels hands on what was learned of each workload, and lets a level of use go on that began before: up to twice and down to
// half of what it was, and a quarter of a CPU either way, is the same load.
func keepLevels(before, now []Use) {
	k := 0
	for i := range now {
		u := &now[i]
		for k < len(before) && before[k].Workload < u.Workload {
			k++
		}
		if k == len(before) || before[k].Workload != u.Workload {
			continue
		}
		u.Free, u.Known = before[k].Free, before[k].Known
		if l := before[k].Level; u.CPUs <= max(2*l, l+0.25) && u.CPUs >= min(l/2, l-0.25) {
			u.Level, u.Since = l, before[k].Since
		}
	}
}
