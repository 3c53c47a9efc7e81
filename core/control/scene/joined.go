package scene

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// joined returns the parts of one workload as one observation: the first, with what the others add.
func joined(parts []workload.Observation) workload.Observation {
	o := parts[0]
	if len(parts) == 1 {
		return o
	}
	o.RanOn = ranOn(parts)
	o.Processes = slices.Clone(o.Processes)
	o.PerThread = slices.Clone(o.PerThread)
	movable := slices.ContainsFunc(parts, func(p workload.Observation) bool { return p.Movable != nil })
	if movable {
		o.Movable = movableOf(&o)
	}
	for i := range parts[1:] {
		p := &parts[1+i]
		addUse(&o, p)
		addMemory(&o, p, movable)
		addTraits(&o, p)
	}
	slices.SortFunc(o.Processes, func(a, b workload.Process) int { return cmp.Compare(a.PID, b.PID) })
	slices.SortFunc(o.PerThread, func(a, b workload.Thread) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.TID, b.TID))
	})
	return o
}

// addUse adds the processes of another part, and its use of CPUs.
func addUse(o, p *workload.Observation) {
	o.Processes = append(o.Processes, p.Processes...)
	o.PerThread = append(o.PerThread, p.PerThread...)
	o.Threads += p.Threads
	o.CPUTime += p.CPUTime
	o.Bandwidth += p.Bandwidth
	o.Used += p.Used
	o.Accesses = accessesOf(o.Accesses, p.Accesses, o.CPUUse, p.CPUUse)
	o.CPUUse += p.CPUUse
	if p.Waited > o.Waited || o.WaitedFrom == "" {
		o.Waited, o.WaitedFrom = p.Waited, p.WaitedFrom
	}
	o.Throttled = max(o.Throttled, p.Throttled)
	o.Executed.Cycles += p.Executed.Cycles
	o.Executed.Instructions += p.Executed.Instructions
	o.Window = max(o.Window, p.Window)
	o.FirstSeen = o.FirstSeen || p.FirstSeen
}

// addMemory adds the memory of another part.
func addMemory(o, p *workload.Observation, movable bool) {
	o.Memory = plus(o.Memory, p.Memory)
	o.Anon = plus(o.Anon, p.Anon)
	if movable {
		o.Movable = plus(o.Movable, movableOf(p))
	}
	o.MemoryUnread = o.MemoryUnread || p.MemoryUnread
	o.MemoryMoved = o.MemoryMoved || p.MemoryMoved
}

// addTraits adds where another part may run, and what keeps it from being changed.
func addTraits(o, p *workload.Observation) {
	o.UnevenCPUs = o.UnevenCPUs || !o.CPUs.Equal(p.CPUs)
	o.UnevenMems = o.UnevenMems || !o.Mems.Equal(p.Mems)
	o.CPUs = o.CPUs.Union(p.CPUs)
	o.Mems = o.Mems.Union(p.Mems)
	o.OwnPolicy = cmp.Or(o.OwnPolicy, p.OwnPolicy)
	o.Unanswered = o.Unanswered || p.Unanswered
	o.Unasked = o.Unasked || p.Unasked
	o.Pinned = o.Pinned || p.Pinned
	o.PinnedWhy = cmp.Or(o.PinnedWhy, p.PinnedWhy)
	o.Terminal = o.Terminal || p.Terminal
}

// movableOf returns the memory of a part that can be moved: all of it, unless the scan said otherwise.
func movableOf(o *workload.Observation) []workload.NodeMemory {
	if o.Movable != nil {
		return o.Movable
	}
	return o.Memory
}

// plus adds memory node by node.
func plus(a, b []workload.NodeMemory) []workload.NodeMemory {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	out := slices.Clone(a)
	for _, m := range b {
		i, ok := slices.BinarySearchFunc(out, m.Node, func(x workload.NodeMemory, n topology.NodeID) int {
			return cmp.Compare(x.Node, n)
		})
		if ok {
			out[i].KiB += m.KiB
		} else {
			out = slices.Insert(out, i, m)
		}
	}
	return out
}

// ranOn returns where the CPU time of all parts was spent, each counted by its use.
func ranOn(parts []workload.Observation) []workload.NodeShare {
	var out []workload.NodeShare
	var all float64
	for i := range parts {
		if len(parts[i].RanOn) > 0 {
			all += parts[i].CPUUse
		}
	}
	if all == 0 {
		return parts[0].RanOn
	}
	for i := range parts {
		for _, r := range parts[i].RanOn {
			share := r.Share * parts[i].CPUUse / all
			k, ok := slices.BinarySearchFunc(out, r.Node, func(x workload.NodeShare, n topology.NodeID) int {
				return cmp.Compare(x.Node, n)
			})
			if ok {
				out[k].Share += share
			} else if share > 0 {
				out = slices.Insert(out, k, workload.NodeShare{Node: r.Node, Share: share})
			}
		}
	}
	return out
}

// accessesOf returns the accesses of two parts. When only one was counted, or each in another way, it
// returns those of the one that was counted, or of the busier one.
func accessesOf(a, b workload.Accesses, useA, useB float64) workload.Accesses {
	switch {
	case a.From == "":
		return b
	case b.From == "":
		return a
	case a.From != b.From:
		if useB > useA {
			return b
		}
		return a
	}
	weightA, weightB := a.PerSecond, b.PerSecond
	if weightA+weightB == 0 {
		weightA, weightB = useA, useB
	}
	if weightA+weightB > 0 {
		a.Local = (a.Local*weightA + b.Local*weightB) / (weightA + weightB)
	}
	a.PerSecond += b.PerSecond
	return a
}
