package scene

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// takePart takes the share of a part out of its whole, which is among all: the time of its vCPUs, and
// the memory that was asked for on its node. Waiting for a CPU is known of the whole alone, and
// reported for each part.
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
		Kind:        whole.Kind,
		Processes:   whole.Processes,
		Threads:     part.VCPUs.Len(),
		Window:      whole.Window,
		FirstSeen:   whole.FirstSeen,
		Waited:      whole.Waited,
		WaitedFrom:  whole.WaitedFrom,
		Throttled:   whole.Throttled,
		UID:         whole.UID,
		Owner:       whole.Owner,
		MemoryMoved: whole.MemoryMoved,
		Unanswered:  whole.Unanswered,
		Unasked:     whole.Unasked,
	}
	takeMemory(&o, whole, part)
	share := ranOnOf(&o, whole, part)
	o.CPUUse = min(whole.CPUUse, share*(whole.CPUUse+usedByParts(all[i+1:], part.Of)))
	whole.CPUUse -= o.CPUUse
	return o
}

// takeMemory takes the memory of a part out of its whole.
func takeMemory(o, whole *workload.Observation, part *workload.Part) {
	k := slices.IndexFunc(whole.Asked, func(a workload.AskedMemory) bool { return a.Node == part.Memory })
	o.MemoryUnread = whole.MemoryUnread || k < 0
	if k < 0 {
		return
	}
	o.Memory = whole.Asked[k].Memory
	whole.Memory = less(whole.Memory, o.Memory)
	whole.Anon = less(whole.Anon, o.Memory)
	whole.Movable = less(whole.Movable, o.Memory)
}

// ranOnOf notes where the vCPUs of a part ran, and returns their share in the time of the whole.
func ranOnOf(o, whole *workload.Observation, part *workload.Part) (share float64) {
	for _, t := range whole.VCPUs {
		if !part.VCPUs.Has(t.VCPU) || t.Share <= 0 {
			continue
		}
		share += t.Share
		at := slices.IndexFunc(o.RanOn, func(n workload.NodeShare) bool { return n.Node == t.Node })
		if at >= 0 {
			o.RanOn[at].Share += t.Share
		} else {
			o.RanOn = append(o.RanOn, workload.NodeShare{Node: t.Node, Share: t.Share})
		}
	}
	for n := range o.RanOn {
		o.RanOn[n].Share /= share
	}
	slices.SortFunc(o.RanOn, func(a, b workload.NodeShare) int { return int(a.Node - b.Node) })
	o.RanOnFrom = workload.PerThread
	if o.RanOn == nil {
		o.RanOnFrom = workload.AllowedSet
	}
	return share
}

// usedByParts returns the CPU use that was taken out of a whole already, by the parts after it.
func usedByParts(after []workload.Observation, whole workload.ID) (use float64) {
	for i := range after {
		of, n := workload.PartOf(after[i].ID)
		if n >= 0 && of == whole {
			use += after[i].CPUUse
		}
	}
	return use
}

// less returns memory without some of it, node by node.
func less(mem, some []workload.NodeMemory) []workload.NodeMemory {
	if mem == nil {
		return nil
	}
	out := []workload.NodeMemory{}
	for _, m := range mem {
		m.KiB -= workload.On(some, topology.Nodes(m.Node))
		if m.KiB > 0 {
			out = append(out, m)
		}
	}
	return out
}
