package balance

import (
	"cmp"
	"slices"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Outcome is the decision of a tick.
type Outcome struct {
	Plan   plan.Plan `json:"plan"`
	Report Report    `json:"report"`
}

// Engine decides on one host tick after tick. Its outcomes are those of Tick. It only remembers facts about workloads
// that have not changed since the newest tick. The zero Engine remembers nothing. It is for one goroutine.
type Engine struct {
	arranger arrange.Arranger
	known    recall
	scratch  scratch
	ticking  bool // still true when a tick has failed half way
}

// Tick decides once: first homes and steps by arrange.Arrange, then at most one change of home. Same
// arguments, same outcome; it does not modify its arguments.
func Tick(in Input, memory History) (Outcome, History) { return new(Engine).Tick(in, memory) }

// Tick returns the results of the function Tick.
func (e *Engine) Tick(in Input, memory History) (Outcome, History) {
	if e.ticking {
		*e = Engine{}
	}
	e.ticking = true
	next := e.known.remember(&in, memory)
	next.Changes = append(next.Changes, in.Ordered...)
	first := e.arranger.Arrange(in.State, in.Subjects, in.Arrange)
	report, homes := e.decide(&in, first.Placements, &next)
	out := Outcome{Plan: first, Report: report}
	if report.State == Moves {
		if moved, why := rearrange(&in, first, homes, &report); why.None() {
			out.Plan = moved
		} else {
			out.Report.State, out.Report.Quiet = NoChoice, why
			out.Report.Chosen.Rejected = why
			out.Report.Weighed = append([]Candidate{*out.Report.Chosen}, out.Report.Weighed...)
			out.Report.Chosen = nil
		}
	}
	if in.Settings.Act {
		next.Changes = append(next.Changes, changed(&in, out.Plan.Placements)...)
	}
	e.ticking = false
	return out, next
}

// remember is the memory with this look, without what is too old to count.
func (known *recall) remember(in *Input, old History) History {
	h := in.State.Host
	look := Sample{At: in.At, Traffic: in.Traffic, Busy: make([]float64, len(h.Nodes)),
		Free: make([]topology.KiB, len(h.Nodes))}
	for i := range h.Nodes {
		look.Free[i] = freeOf(&h.Nodes[i])
	}
	var next History
	for _, l := range old.Samples { // a clock set back, or other nodes, begin the window anew
		if len(l.Busy) == len(look.Busy) && l.At.Before(in.At) {
			next.Samples = append(next.Samples, l)
		}
	}
	var before []Use
	if n := len(next.Samples); n > 0 {
		before = next.Samples[n-1].Uses
	}
	if !known.usesAgain(in, before, &look) {
		look.readUses(in)
		keepLevels(before, look.Uses)
	}
	next.Samples = append(next.Samples, look)
	for len(next.Samples) > leastLooks && !next.Samples[1].At.After(in.At.Add(-in.Settings.Window)) {
		next.Samples = next.Samples[1:]
	}
	for _, p := range old.Changes {
		if age := in.At.Sub(p.At); age >= 0 && age < max(time.Hour, in.Settings.Ban) {
			next.Changes = append(next.Changes, p)
		}
	}
	return next
}

// readUses reads the uses of all workloads.
func (l *Sample) readUses(in *Input) {
	l.Uses = make([]Use, len(in.Subjects))
	at := indexByID(in.State.Host)
	rising := true
	for i, s := range in.Subjects {
		l.Uses[i] = l.useOf(s, at)
		rising = rising && (i == 0 || l.Uses[i-1].Workload <= l.Uses[i].Workload)
	}
	if !rising {
		slices.SortFunc(l.Uses, func(x, y Use) int { return cmp.Compare(x.Workload, y.Workload) })
	}
}

// useOf returns the use of a workload, and adds it to the busy CPUs of its nodes.
func (l *Sample) useOf(s *place.Subject, at nodeIndex) Use {
	o := &s.Observation
	if s.Spec.Class != workload.Batch {
		for _, r := range o.RanOn {
			if k := at.of(r.Node); k >= 0 {
				l.Busy[k] += r.Share * o.CPUUse
			}
		}
	}
	return Use{
		Workload: o.ID, CPUs: o.CPUUse, Bandwidth: o.Bandwidth, Accesses: o.Accesses.PerSecond,
		Level: o.CPUUse, Since: l.At,
	}
}

// rearrange is rehome with the reasons of balancing.
func rearrange(in *Input, first plan.Plan, homes []plan.Placement, r *Report) (plan.Plan, words.Reason) {
	out, why := rehome(in, first, homes)
	if !why.None() {
		return first, why
	}
	for k := range out.Report.Decisions {
		dec := &out.Report.Decisions[k]
		if slices.ContainsFunc(homes, func(p plan.Placement) bool { return p.Workload == dec.Workload }) {
			dec.Reasons = []words.Reason{words.Because(words.Balancing, r.Chosen.What()), r.because(), r.Chosen.Reason}
			if !r.Chosen.split.None() {
				dec.Reasons = slices.Insert(dec.Reasons, 1, r.Chosen.split)
			}
		}
	}
	return out, why
}

// rehome lets arrange.Arrange make the steps to new homes. Nobody else may lose a
// home by it.
func rehome(in *Input, first plan.Plan, homes []plan.Placement) (plan.Plan, words.Reason) {
	st := in.State
	st.Placements = slices.Clone(first.Placements)
	moved := map[workload.ID]bool{}
	for _, p := range homes {
		k, _ := slices.BinarySearchFunc(st.Placements, p.Workload,
			func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
		st.Placements[k] = p
		moved[p.Workload] = true
	}
	second := arrange.Arrange(st, in.Subjects, in.Arrange)
	if len(second.Placements) != len(st.Placements) {
		return first, words.Because(words.OthersLose)
	}
	for k := range second.Placements {
		if p, want := &second.Placements[k], &st.Placements[k]; p.Class != workload.Batch && !p.Home.Equal(want.Home) {
			return first, words.Because(words.OtherLoses, p.Workload)
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
	return second, words.Reason{}
}

// changed is the homes that are others than before, whoever chose them.
func changed(in *Input, now []plan.Placement) []HomeChange {
	before := in.State.Placements
	if len(before) > 0 && len(before) == len(now) && &before[0] == &now[0] {
		return nil
	}
	var out []HomeChange
	k := 0
	for i := range now { // both rise by workload
		p := &now[i]
		for k < len(before) && before[k].Workload < p.Workload {
			k++
		}
		if k < len(before) && before[k].Workload == p.Workload && before[k].Class != workload.Batch &&
			p.Class != workload.Batch && !before[k].Home.Equal(p.Home) {
			out = append(out, HomeChange{Workload: p.Workload, From: before[k].Home, To: p.Home, At: in.At})
		}
	}
	return out
}

// keepLevels hands on what was learned of each workload, and lets a level of use go on that began before: up to twice
// and down to half of what it was, and a quarter of a CPU either way, is the same load.
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
		u.follow(&before[k])
	}
}

// follow continues the use of the same workload in the scan before.
func (u *Use) follow(before *Use) {
	u.Workload = before.Workload // one string for all samples, so that comparing them is quick
	u.Free, u.Known = before.Free, before.Known
	if l := before.Level; u.CPUs <= max(2*l, l+0.25) && u.CPUs >= min(l/2, l-0.25) {
		u.Level, u.Since = l, before.Since
	}
}
