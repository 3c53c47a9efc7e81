package control

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// takePart takes what was seen of a part out of what was seen of the whole, which is among all:
// the time of its vCPUs and the memory that was asked for on its node. That it waited for a CPU
// is known of the whole alone, and said of each part.
func takePart(all []workload.Observation, part *workload.Part) workload.Observation {
	i := len(all) - 1 // the whole comes not long before its parts
	for i >= 0 && all[i].ID != part.Of {
		i--
	}
	if i < 0 {
		return workload.Observation{MemoryUnread: true}
	}
	whole := &all[i]
	o := workload.Observation{
		Kind: whole.Kind, Processes: whole.Processes, Threads: part.VCPUs.Len(), Window: whole.Window,
		Waited: whole.Waited, WaitedFrom: whole.WaitedFrom, Throttled: whole.Throttled,
		UID: whole.UID, Owner: whole.Owner, MemoryMoved: whole.MemoryMoved, Unanswered: whole.Unanswered, Unasked: whole.Unasked,
	}
	k := slices.IndexFunc(whole.Asked, func(a workload.AskedMemory) bool { return a.Node == part.Memory })
	if o.MemoryUnread = whole.MemoryUnread || k < 0; k >= 0 {
		o.Memory = whole.Asked[k].Memory
		whole.Memory, whole.Anon, whole.Movable = less(whole.Memory, o.Memory), less(whole.Anon, o.Memory), less(whole.Movable, o.Memory)
	}
	share := 0.0
	for _, t := range whole.VCPUs {
		if !part.VCPUs.Has(t.VCPU) || t.Share <= 0 {
			continue
		}
		share += t.Share
		if at := slices.IndexFunc(o.RanOn, func(n workload.NodeShare) bool { return n.Node == t.Node }); at >= 0 {
			o.RanOn[at].Share += t.Share
		} else {
			o.RanOn = append(o.RanOn, workload.NodeShare{Node: t.Node, Share: t.Share})
		}
	}
	for n := range o.RanOn {
		o.RanOn[n].Share /= share
	}
	slices.SortFunc(o.RanOn, func(a, b workload.NodeShare) int { return int(a.Node - b.Node) })
	if o.RanOnFrom = workload.PerThread; o.RanOn == nil {
		o.RanOnFrom = workload.AllowedSet
	}
	o.CPUUse = min(whole.CPUUse, share*(whole.CPUUse+usedByParts(all[i+1:], part.Of)))
	whole.CPUUse -= o.CPUUse
	return o
}

// usedByParts is the CPU use that was taken out of a whole already, by those after it.
func usedByParts(after []workload.Observation, whole workload.ID) (use float64) {
	for i := range after {
		if of, n := workload.PartOf(after[i].ID); n >= 0 && of == whole {
			use += after[i].CPUUse
		}
	}
	return use
}

// less is memory without some of it, node by node.
func less(mem, some []workload.NodeMemory) []workload.NodeMemory {
	if mem == nil {
		return nil
	}
	out := []workload.NodeMemory{}
	for _, m := range mem {
		if m.KiB -= workload.On(some, topology.Nodes(m.Node)); m.KiB > 0 {
			out = append(out, m)
		}
	}
	return out
}
