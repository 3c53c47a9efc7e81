package control

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// admitExact takes down where a person has put what is about to start. It is never refused
// for lack of room, and no plan has it: it is left there, and counts as in use.
func (s *State) admitExact(id uint64, spec *workload.Spec, from workload.Origin, in *PlaceRequest) {
	p := ExactPlacement(s.Snapshot.Host, spec, in)
	d := plan.Decision{Workload: spec.ID, Outcome: plan.Placed, Home: p.Home, Reasons: words.Reasons(words.Because(words.ExactNamed))}
	if taken := s.exactCPUs().Union(s.dedicatedCPUs(spec.ID)).Intersect(p.CPUs); !taken.Empty() {
		d.Reasons = slices.Insert(d.Reasons, 0, words.Because(words.ExactTaken, taken))
	}
	answer := &Placed{Placement: p, Decision: d}
	if in.Process.PID > 0 {
		answer.Ledger = true
		a := Admission{Spec: *spec, From: from, Process: in.Process, Had: s.hadBefore(in), Placement: p, Scan: s.Scans, Exact: true}
		s.Admissions[spec.ID] = a
		s.saveAdmission(spec.ID, a)
		if !p.CPUs.Empty() {
			s.Given[spec.ID], s.givenSeen = p.CPUs, false
		}
		s.keepClear()
		s.ledger = nil // others have less
		code, told := words.RequestExact, []any{spec.Name, string(spec.Class), spec.CPUs, p.CPUs, words.Nodes(p.Home)}
		if p.CPUs.Empty() {
			code, told = words.RequestExactMemory, slices.Delete(told, 3, 4)
		}
		s.event(plan.Event{Kind: plan.EventPlan, Workload: spec.ID}, code, told...)
	}
	s.reply(Reply{ID: id, Place: answer})
}

// ExactPlacement is what was named in in.Exact as a placement: its home is the nodes of the
// memory, or those of h that the CPUs are on.
func ExactPlacement(h *topology.Host, spec *workload.Spec, in *PlaceRequest) workload.Placement {
	p := workload.Placement{Workload: spec.ID, Class: spec.Class, Importance: spec.Importance, VCPUs: spec.CPUs, Home: in.Exact.Nodes.Clone(), CPUs: in.Exact.CPUs.Clone(),
		Asked: max(0, spec.Memory), Start: in.Process.Start}
	if p.Home.Empty() {
		for i := range h.Nodes {
			if h.Nodes[i].CPUs.Intersects(p.CPUs) {
				p.Home.Add(h.Nodes[i].ID)
			}
		}
	}
	for n := range p.Home.All() {
		if part := p.Asked / topology.KiB(p.Home.Len()); part > 0 {
			p.Memory = append(p.Memory, workload.NodeMemory{Node: n, KiB: part})
		}
	}
	if p.Class == workload.Dedicated {
		p.Pins = p.CPUs.Slice()
	}
	return p
}

// exactly is why a workload is left where it is: a person said where.
func (s *State) exactly(o *workload.Observation) words.Reason {
	if a, ok := s.Admissions[o.ID]; ok && a.Exact && a.Process.Start == startOf(o) {
		return words.Because(words.NamedByHand)
	}
	return words.Reason{}
}

// exactCPUs is the CPUs that dedicated work was put on by hand.
func (s *State) exactCPUs() topology.CPUSet {
	var cpus topology.CPUSet
	for _, a := range s.Admissions {
		if a.Exact && a.Spec.Class == workload.Dedicated {
			cpus = cpus.Union(a.Placement.CPUs)
		}
	}
	return cpus
}

// dedicatedCPUs is the CPUs that are in the ledger for one workload each, but for one of them.
func (s *State) dedicatedCPUs(but workload.ID) topology.CPUSet {
	var cpus topology.CPUSet
	for _, p := range s.Homes() {
		if p.Class == workload.Dedicated && p.Workload != but {
			cpus = cpus.Union(p.CPUs).Union(p.Idle)
		}
	}
	return cpus
}

// countExact counts in the ledger, until a scan sees it, what was put somewhere by hand.
func (s *State) countExact() {
	for _, id := range sortedKeys(s.Admissions) {
		a := s.Admissions[id]
		if !a.Exact || a.Scan < s.Seen {
			continue
		}
		o := workload.Observation{ID: id, CPUUse: float64(a.Spec.CPUs), Memory: a.Placement.Memory}
		for i := range s.Facts.Host.Nodes {
			n := &s.Facts.Host.Nodes[i]
			if on := n.CPUs.Overlap(a.Placement.CPUs); on > 0 {
				o.RanOn = append(o.RanOn, workload.NodeShare{Node: n.ID, Share: float64(on) / float64(a.Placement.CPUs.Len())})
			}
		}
		s.ledger.AddForeign(&o)
	}
}
