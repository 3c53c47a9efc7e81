package place

import (
	"cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// want is a request in the ledger's terms.
type want struct {
	workload.Spec
	vcpus     int
	memory    topology.KiB // whole pages of it
	pull      []float64    // by node: what a vCPU there costs for being far from what it is near to; nil for nothing
	residence []float64    // by node: the part of it that is there now; nil when it does not run or that is unknown
	moving    float64      // cost of a move of all its memory
	tooLarge  bool         // no node of this host could ever hold all of it
	must      bool
	absent    []workload.Near  // what it is to be near to and the host does not have
	required  []Requirement    // nodes that have to be in its home
	unmet     words.Reason     // why no home can have them
	asked     topology.NodeSet // nodes it may use, before required ones narrowed them
	dramFirst bool             // memory without CPUs that it does not name is left out
	// share of its time in which it waits for a CPU where it runs; 0 when that is no reason to split it
	waited  float64
	waitsOn topology.NodeID // where that is
	had     topology.CPUSet // CPUs that dedicated work has of its own, and keeps as far as its home has them
}

// newWant reads a request.
func newWant(l *Ledger, req *Request) want {
	w := l.wantOf(req)
	w.pull, w.absent = l.pull(w.Near, firstCeiling(w.vcpus))
	w.residence = residence(l, req)
	w.moving = w.costOfMove(workload.Total(req.Memory))
	w.tooLarge = w.isTooLarge(l)
	w.confine(l)
	return w
}

// wantOf reads what a request asks for, all that it takes to ask whether a home holds.
// Sizes out of range are brought into it: a workload runs on at least one CPU, and memory
// is not negative.
func (l *Ledger) wantOf(req *Request) want {
	w := want{Spec: req.Spec, vcpus: max(1, req.Spec.CPUs), must: req.Must || req.running(), asked: req.Spec.Nodes}
	w.waited, w.waitsOn = req.waits()
	w.required, w.unmet = l.Requirements(w.Near)
	if w.Class == workload.Dedicated {
		w.had = req.Had
	}
	w.HugePage = max(0, w.HugePage)
	w.Bandwidth = max(0, w.Bandwidth)
	w.memory = plan.RoundUp(min(max(0, req.Spec.Memory), unlimited), min(w.HugePage, unlimited))
	w.SMT = cmp.Or(w.SMT, workload.SMTPrefer)
	w.Even = w.Even && w.Class == workload.Dedicated // floating work divides by CPUs whatever is planned
	return w
}

// eligible reports whether the workload may use node i at all: a GPU's memory only where the workload names its
// node, and other memory without CPUs only where it does or DRAM is short.
func (w *want) eligible(l *Ledger, i int) bool {
	n := &l.host.Nodes[i]
	if n.Apart() && (w.dramFirst || n.OfGPU()) && !w.asked.Has(n.ID) {
		return false
	}
	return w.Nodes.Empty() || w.Nodes.Has(l.nodes[i].id)
}

func (w *want) isTooLarge(l *Ledger) bool {
	for i := range l.nodes {
		if room, mem := w.everRoom(l, i); room >= w.vcpus && mem >= w.memory {
			return false
		}
	}
	return true
}

// everRoom is the vCPUs and the memory of the workload that node i could hold
// with nothing else placed there.
func (w *want) everRoom(l *Ledger, i int) (vcpus int, mem topology.KiB) {
	if !w.eligible(l, i) {
		return 0, 0
	}
	n := &l.nodes[i]
	switch w.Class {
	case workload.Dedicated:
		vcpus = l.cpus.EverHolds(i, w.SMT)
	case workload.Shared:
		vcpus = int(l.overcommit()*float64(n.Given(w.Class)) + tiny)
	default:
		vcpus = n.Usable
	}
	if w.HugePage == 0 {
		return vcpus, n.memory
	}
	if p := n.pool(w.HugePage); p != nil {
		mem = p.total
	}
	return vcpus, mem
}

// costOfMove is the cost of a move of all its memory. Little memory moves in no time; memory of unknown size counts as
// much.
func (w *want) costOfMove(resident topology.KiB) float64 {
	cost := moveWeight * float64(w.vcpus)
	if memory := max(w.memory, resident); memory > 0 {
		cost *= min(1, float64(memory)/cheapMove)
	}
	return cost
}

// residence is where the workload is now: its memory, or failing that its CPU time,
// or failing that the CPUs it may use.
func residence(l *Ledger, req *Request) []float64 {
	at := make([]float64, len(l.nodes))
	sum := 0.0
	add := func(id topology.NodeID, x float64) {
		if i := l.index(id); i >= 0 && x > 0 {
			at[i] += x
			sum += x
		}
	}
	for _, m := range req.Memory {
		add(m.Node, float64(m.KiB))
	}
	if sum == 0 {
		for _, r := range req.RanOn {
			add(r.Node, r.Share)
		}
	}
	if sum == 0 {
		for i := range l.host.Nodes {
			add(l.nodes[i].id, float64(l.host.Nodes[i].CPUs.Overlap(req.CPUs)))
		}
	}
	if !(sum > 0) {
		return nil
	}
	for i := range at {
		at[i] /= sum
	}
	return at
}

// cpuRoom is how many vCPUs of the workload node i can take.
func (w *want) cpuRoom(l *Ledger, i int) int {
	if !w.eligible(l, i) {
		return 0
	}
	n := &l.nodes[i]
	if w.Class == workload.Shared {
		return int(l.sharedRoom(n) + tiny)
	}
	return l.cpus.Holds(i, n.Free-l.keep(n), w.SMT)
}

// memoryRoom is how much memory of the workload's page size node i can hold.
func (w *want) memoryRoom(l *Ledger, i int) topology.KiB {
	if !w.eligible(l, i) {
		return 0
	}
	page := max(1, w.HugePage)
	return max(0, l.nodes[i].freeOf(w.HugePage)) / page * page
}

// fitsNode reports whether some node has as much memory free as shared work needs and, whatever
// other shared work has booked, as many CPUs.
func (w *want) fitsNode(l *Ledger) bool {
	if w.Class != workload.Shared || w.MinNodes > 1 {
		return false
	}
	for i := range l.nodes {
		if w.eligible(l, i) && w.vcpus <= l.nodes[i].Open() && w.memory <= w.memoryRoom(l, i) &&
			!w.farFromRequired(l, []share{{node: i, vcpus: 1}}) {
			return true
		}
	}
	return false
}

// withinRatio reports whether the nodes that the workload may use carry its vCPUs, all together: a
// booking on one of them that leaves too little there is made up for by the others.
func (w *want) withinRatio(l *Ledger) bool {
	room := 0.0
	for i := range l.nodes {
		if n := &l.nodes[i]; w.asked.Empty() || w.asked.Has(n.id) {
			room += l.mostShared(n) - n.sharedVCPUs()
		}
	}
	return room >= float64(w.vcpus)-tiny
}

// fits reports whether a node has room for a share of the workload.
func (w *want) fits(l *Ledger, s share) bool {
	if s.vcpus > 0 {
		room := float64(w.cpuRoom(l, s.node))
		if w.Class == workload.Shared && w.eligible(l, s.node) {
			room = l.sharedRoom(&l.nodes[s.node])
		}
		if s.vcpus > room+tiny {
			return false
		}
	}
	return s.memory <= w.memoryRoom(l, s.node)
}
