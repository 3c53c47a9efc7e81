package place

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// want is a request in the ledger's terms.
type want struct {
	workload.Spec
	vcpus  int
	memory topology.KiB // whole pages of it
	pull   []float64    // by node: what a vCPU there costs for being far from what it is near to; nil for nothing
	lies   []float64    // by node: the part of it that is there now; nil when it does not run or that is unknown
	wide   bool         // no node of this host could ever hold all of it
	must   bool
	lost   []string // what it is near to and nobody knows
}

// newWant reads a request. Sizes out of range are brought into it: a workload
// runs on at least one CPU, and memory is not negative.
func (l *Ledger) newWant(req *Request) want {
	w := want{Spec: req.Spec, vcpus: max(1, req.Spec.CPUs), must: req.Must || req.running()}
	w.HugePage = max(0, w.HugePage)
	w.Bandwidth = max(0, w.Bandwidth)
	w.memory = plan.RoundUp(min(max(0, req.Spec.Memory), unlimited), min(w.HugePage, unlimited))
	if w.SMT == "" {
		w.SMT = workload.SMTPrefer
	}
	w.pull, w.lost = l.pull(w.Near, w.vcpus)
	w.lies = l.lies(req)
	w.wide = l.isWide(&w)
	w.Even = w.Even && w.Class == workload.Dedicated // floating work divides by CPUs whatever is planned
	return w
}

// eligible reports whether the workload may use node i at all.
func (l *Ledger) eligible(w *want, i int) bool {
	return w.Nodes.Empty() || w.Nodes.Has(l.nodes[i].id)
}

func (l *Ledger) isWide(w *want) bool {
	for i := range l.nodes {
		if room, mem := l.everRoom(w, i); room >= w.vcpus && mem >= w.memory {
			return false
		}
	}
	return true
}

// everRoom is the vCPUs and the memory of the workload that node i could hold
// with nothing else placed there.
func (l *Ledger) everRoom(w *want, i int) (vcpus int, mem topology.KiB) {
	if !l.eligible(w, i) {
		return 0, 0
	}
	n := &l.nodes[i]
	vcpus = n.usable
	switch {
	case w.Class == workload.Dedicated && w.SMT == workload.SMTIsolate:
		vcpus = n.wholeUsable
	case w.Class == workload.Dedicated && w.SMT == workload.SMTRequire:
		vcpus = 0
		for k := n.cores.lo; k < n.cores.hi; k++ {
			if c := &l.cores[k]; c.mayBeWhole() {
				vcpus += len(c.cpus)
			}
		}
	case w.Class == workload.Shared:
		vcpus = int(l.overcommit()*float64(n.given(w.Class)) + tiny)
	}
	if w.HugePage == 0 {
		return vcpus, n.memory
	}
	if p := n.pool(w.HugePage); p != nil {
		mem = p.total
	}
	return vcpus, mem
}

// lies is where the workload is now: its memory, or failing that its CPU time,
// or failing that the CPUs it may use.
func (l *Ledger) lies(req *Request) []float64 {
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
func (l *Ledger) cpuRoom(w *want, i int) int {
	if !l.eligible(w, i) {
		return 0
	}
	n := &l.nodes[i]
	if w.Class == workload.Shared {
		return int(l.sharedRoom(n) + tiny)
	}
	spare := n.free - l.keep(n)
	if spare <= 0 {
		return 0
	}
	if w.SMT == workload.SMTPrefer {
		return spare
	}
	return l.wholeRoom(n, spare, w.SMT == workload.SMTIsolate)
}

// sharedRoom is how many more shared vCPUs node n can take, also in parts.
func (l *Ledger) sharedRoom(n *node) float64 {
	return max(0, l.overcommit()*float64(n.open())-n.sharedVCPUs())
}

// wholeRoom is how many vCPUs fit on free whole cores, one a core or one a CPU,
// when at most spare CPUs may be taken.
func (l *Ledger) wholeRoom(n *node, spare int, onePerCore bool) int {
	switch {
	case n.wholeCPUs > spare:
		return max(l.wholeBySize(n, spare, onePerCore, false), l.wholeBySize(n, spare, onePerCore, true))
	case onePerCore:
		return n.whole
	}
	return n.wholeCPUs
}

// wholeBySize adds up free whole cores in order of size, as long as they fit
// into spare CPUs. The order matters where cores differ in size.
func (l *Ledger) wholeBySize(n *node, spare int, onePerCore, largestFirst bool) int {
	room := 0
	for k := 1; k <= n.threads && spare > 0; k++ {
		threads := k
		if largestFirst {
			threads = n.threads + 1 - k
		}
		for i := n.cores.lo; i < n.cores.hi && threads <= spare; i++ {
			if c := &l.cores[i]; c.whole() && len(c.cpus) == threads {
				spare -= threads
				if onePerCore {
					room++
				} else {
					room += threads
				}
			}
		}
	}
	return room
}

// memoryRoom is how much memory of the workload's page size node i can hold.
func (l *Ledger) memoryRoom(w *want, i int) topology.KiB {
	if !l.eligible(w, i) {
		return 0
	}
	n := &l.nodes[i]
	if w.HugePage == 0 {
		return max(0, n.memoryFree)
	}
	if p := n.pool(w.HugePage); p != nil {
		return max(0, p.free) / w.HugePage * w.HugePage
	}
	return 0
}
