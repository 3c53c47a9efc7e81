package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Worsening is one thing that becomes worse for a workload.
type Worsening struct {
	Workload workload.ID `json:"workload"` // ID of the workload that loses
	Term     string      `json:"term"`     // term of the score that becomes worse, as in candidates
	Before   float64     `json:"before"`   // value of that term before
	After    float64     `json:"after"`    // value of that term afterwards; lower is better
}

// fares is how a placed workload fares, in the terms of a score; h is in the ledger.
func (w *want) fares(l *Ledger, h *holding) terms {
	var t terms
	shares := l.sharesOf(h)
	total := topology.KiB(0)
	for _, s := range shares {
		total += s.memory
	}
	t[distance] = float64(h.VCPUs) * (l.accessOf(shares, total) - 1)
	for _, s := range shares {
		n := &l.nodes[s.node]
		if w.pull != nil {
			t[near] += s.vcpus * w.pull[s.node]
		}
		if h.Bandwidth > 0 {
			t[bandwidth] += bandwidthWeight * s.vcpus * float64(n.bandwidth) / float64(n.bandwidthCap)
		}
		if all := n.load(); h.Class == workload.Shared && all > 0 {
			t[contention] += n.crowding(float64(n.Open()), all) * s.vcpus / all
		}
	}
	if h.Class == workload.Dedicated {
		t[siblings] = siblingWeight * float64(l.cpus.Doubled(h.Placement))
	}
	return t
}

// specOf is what is known of a workload's wishes from its placement alone.
func specOf(p *plan.Placement) workload.Spec {
	return workload.Spec{
		ID: p.Workload, Class: p.Class, Importance: p.Importance, CPUs: p.VCPUs, Memory: p.Asked, HugePage: p.HugePage,
		Bandwidth: p.Bandwidth, Nodes: p.Within,
	}
}

// worsened lists what is worse on one ledger than on the one before, for every
// workload on both, rising by ID and term.
func worsened(before, after *Ledger, running []Runner) []Worsening {
	specs := make(map[workload.ID]*workload.Spec, len(running))
	for i := range running {
		specs[running[i].Spec.ID] = &running[i].Spec
	}
	var out []Worsening
	for i := range before.held {
		h := before.held[i]
		k, ok := after.find(h.Workload)
		if !ok || h.Class == workload.Batch {
			continue
		}
		spec := specOf(h.Placement)
		if s := specs[h.Workload]; s != nil {
			spec.Near = s.Near
			spec.Nodes = s.Nodes
			spec.SMT = s.SMT
		}
		wb, wa := newWant(before, &Request{Spec: spec, Must: true}), newWant(after, &Request{Spec: spec, Must: true})
		b, a := wb.fares(before, h), wa.fares(after, after.held[k])
		for t := range numTerms {
			if a[t] > b[t]+tiny {
				out = append(out, Worsening{h.Workload, termNames[t], b[t], a[t]})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Worsening) int { return cmp.Compare(a.Workload, b.Workload) })
	return out
}
