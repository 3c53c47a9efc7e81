package place

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Worsening is one thing that becomes worse for a workload.
type Worsening struct {
	Workload workload.ID `json:"workload"`
	Term     string      `json:"term"`   // as in the terms of a candidate
	Before   float64     `json:"before"` // in the unit of scores: vCPUs times local accesses
	After    float64     `json:"after"`
}

// nodeOf is the position of a CPU's node, or -1 for a CPU that may not be given.
func (l *Ledger) nodeOf(cpu topology.CPUID) int {
	if cpu < 0 || int(cpu) >= len(l.coreAt) || l.coreAt[cpu] < 0 {
		return -1
	}
	return int(l.cores[l.coreAt[cpu]].node)
}

// sharesOf is what each node holds of a placement.
func (l *Ledger) sharesOf(h *holding) []share {
	out := make([]share, len(h.home))
	for k, i := range h.home {
		out[k] = share{node: i, memory: h.memory[k]}
	}
	if h.Class == workload.Shared {
		k := 0
		l.eachShare(h.home, func(i int, part float64) {
			for out[k].node != i {
				k++
			}
			out[k].vcpus = part * float64(h.VCPUs)
		})
		return out
	}
	for cpu := range h.CPUs.All() {
		i := l.nodeOf(cpu)
		if k := slices.Index(h.home, i); k >= 0 {
			out[k].vcpus++
		}
	}
	return out
}

// Access is the mean access cost of a placement, local being 1.
func (l *Ledger) Access(p *plan.Placement) float64 {
	h := holding{Placement: *p}
	for n := range p.Home.All() {
		if i := l.index(n); i >= 0 {
			h.home = append(h.home, i)
			h.memory = append(h.memory, workload.On(p.Memory, topology.Nodes(n)))
		}
	}
	return l.accessOf(l.sharesOf(&h), workload.Total(p.Memory))
}

// standing is how a placed workload fares, in the terms of a score; h is in the ledger.
func (l *Ledger) standing(h *holding, w *want) terms {
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
			t[contention] += n.crowding(float64(n.open()), all) * s.vcpus / all
		}
	}
	if h.Class == workload.Dedicated {
		t[siblings] = siblingWeight * float64(l.sharedCPUs(h))
	}
	return t
}

// sharedCPUs is how many of its CPUs are on cores that another dedicated
// workload uses as well.
func (l *Ledger) sharedCPUs(h *holding) int {
	all := 0
	for _, cpu := range h.Pins {
		if l.nodeOf(cpu) < 0 {
			continue
		}
		c := &l.cores[l.coreAt[cpu]]
		own := uint64(0)
		for k, x := range c.cpus {
			if h.CPUs.Has(x) || h.Idle.Has(x) {
				own |= 1 << k
			}
		}
		if bits.OnesCount64(c.all()&^c.apart&^c.free&^own) > 0 {
			all++
		}
	}
	return all
}

// specOf is what is known of a workload's wishes from its placement alone.
func specOf(p *plan.Placement) workload.Spec {
	return workload.Spec{
		ID: p.Workload, Class: p.Class, Importance: p.Importance, CPUs: p.VCPUs, Memory: p.Asked, HugePage: p.HugePage, Bandwidth: p.Bandwidth,
	}
}

// worsened lists what is worse on ledger after than on this one, for every
// workload on both, rising by ID and term.
func (l *Ledger) worsened(after *Ledger, running []Runner) []Worsening {
	specs := make(map[workload.ID]*workload.Spec, len(running))
	for i := range running {
		specs[running[i].Spec.ID] = &running[i].Spec
	}
	var out []Worsening
	for i := range l.held {
		h := l.held[i]
		k, ok := after.find(h.Workload)
		if !ok || h.Class == workload.Offline {
			continue
		}
		spec := specOf(&h.Placement)
		if s := specs[h.Workload]; s != nil {
			spec.Near, spec.Nodes, spec.SMT = s.Near, s.Nodes, s.SMT
		}
		wb, wa := l.newWant(&Request{Spec: spec, Must: true}), after.newWant(&Request{Spec: spec, Must: true})
		b, a := l.standing(h, &wb), after.standing(after.held[k], &wa)
		for t := range numTerms {
			if a[t] > b[t]+tiny {
				out = append(out, Worsening{h.Workload, termNames[t], b[t], a[t]})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Worsening) int { return cmp.Compare(a.Workload, b.Workload) })
	return out
}
