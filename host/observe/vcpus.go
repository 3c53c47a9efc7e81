package observe

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// hypervisor reports whether a process may run a guest. Its name is its own to choose: what
// is told of its vCPUs counts for a guest that its manager knows to be in that process.
func (p *process) hypervisor() bool {
	return proc.Monitor([]byte(p.comm))
}

// vcpuOn is a vCPU on a node.
type vcpuOn struct{ vcpu, node int }

// vcpuRan adds time of the thread of a vCPU.
func (o *Observer) vcpuRan(w *work, comm []byte, cpu int, ticks uint64) {
	vcpu, ok := proc.VCPU(comm)
	if !ok || cpu >= len(o.nodeOf) || o.nodeOf[cpu] < 0 {
		return
	}
	if w.vcpuAcc == nil {
		w.vcpuAcc = map[vcpuOn]uint64{}
	}
	w.vcpuAcc[vcpuOn{vcpu, o.nodeOf[cpu]}] += min(ticks, 1<<40)
}

// settleVCPUs makes shares of all time of the workload of that of its vCPUs.
func (w *work) settleVCPUs(total uint64) {
	w.vcpus = nil
	for at, t := range w.vcpuAcc {
		w.vcpus = append(w.vcpus, workload.ThreadTime{VCPU: at.vcpu, Node: topology.NodeID(at.node),
			Share: float64(t) / float64(total)})
	}
	slices.SortFunc(w.vcpus, func(a, b workload.ThreadTime) int {
		return cmp.Or(cmp.Compare(a.VCPU, b.VCPU), cmp.Compare(a.Node, b.Node))
	})
	clear(w.vcpuAcc)
}

// askedMemory is memory in mappings for which a process asked for one node.
type askedMemory struct {
	node int
	huge bool
	all  byNode
}

// mostAsked bounds the nodes that are told apart.
const mostAsked = 64

func (m *numaMaps) addAsked(v *proc.Mapping) {
	node, ok := v.Asked()
	if !ok {
		return
	}
	i := slices.IndexFunc(m.asked, func(a askedMemory) bool { return a.node == node })
	if i < 0 {
		if len(m.asked) == mostAsked {
			return
		}
		i, m.asked = len(m.asked), append(m.asked, askedMemory{node: node})
	}
	a := &m.asked[i]
	a.huge = a.huge || v.Huge
	for _, n := range v.Nodes {
		a.all.add(n.Node, topology.KiB(n.Pages*v.PageKiB))
	}
}

// askedOf is what a hypervisor asked for one node each, rising by that.
func askedOf(w *work) (out []workload.AskedMemory) {
	if len(w.procs) != 1 || !w.procs[0].hypervisor() || w.procs[0].maps == nil {
		return nil
	}
	for _, a := range w.procs[0].maps.asked {
		out = append(out, workload.AskedMemory{Node: topology.NodeID(a.node), Huge: a.huge, Memory: a.all.list()})
	}
	slices.SortFunc(out, func(a, b workload.AskedMemory) int { return cmp.Compare(a.Node, b.Node) })
	return out
}
