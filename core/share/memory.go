package share

import (
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Base is the configuration of all settings other than CPU sets. The zero value sets nothing.
type Base struct {
	// of the memory of a node, how much may be in use, 0 to 1; 0 limits nothing
	Memory   float64    `json:"memory,omitempty"`
	Protect  bool       `json:"protect,omitempty"`   // memory.low of important work is what it holds
	Burst    bool       `json:"burst,omitempty"`     // cpu.max.burst of important work that its cpu.max holds back
	IOWeight int        `json:"io_weight,omitempty"` // of batch work, 1 to 10000; 0 leaves it
	Cache    CacheLimit `json:"cache,omitzero"`      // of batch work, at most
	IO       []IOMax    `json:"io,omitempty"`        // what all batch work together may do, rising by Device
}

// IOMax limits all batch work together at one block device, per second; 0 is no limit.
type IOMax struct {
	Device              string // MAJOR:MINOR
	Read, Write         int64  // bytes
	ReadIOPS, WriteIOPS int64
}

// MemoryNode is the memory of one node, by user.
type MemoryNode struct {
	ID       topology.NodeID
	Capacity topology.KiB
	Online   topology.KiB // of workloads that are not batch work
	System   topology.KiB // of what is no workload, and cannot be reclaimed
}

// Holder is a batch workload whose memory can be limited.
type Holder struct {
	ID  workload.ID
	On  []workload.NodeMemory // resident
	Now topology.KiB          // its limit as homenode set it; 0 for none
}

// MemoryInput is the use of memory in one scan.
type MemoryInput struct {
	Nodes  []MemoryNode // rising by ID
	Work   []Holder     // rising by ID
	Target float64      // as Base.Memory
	// Stalled is the share of the time, 0 to 1, in which all tasks of the host waited for
	// memory (full of /proc/pressure/memory).
	Stalled float64
}

// MemoryLimit is the memory limit of one batch workload.
type MemoryLimit struct {
	Workload workload.ID
	High     topology.KiB // whole MiB
	Why      words.Reason
}

const (
	// freeMemory is the part of a node that is left free: below it the kernel reclaims from
	// everybody (watermarks, mm/page_alloc.c).
	freeMemory = 1. / 32

	// memoryStep is the part of what a workload holds that is taken, or of its limit that is
	// given, at most in a round. Reclaim is the workload's own time, and what it takes back
	// from its working set it reads again.
	memoryStep = 0.1

	// stallStep is memoryStep while the host stands still for memory more than stalledMost.
	stallStep, stalledMost = 0.02, 0.1

	// memorySlack is how far a limit may be off before it is written anew.
	memorySlack = 1. / 32

	// leastMemory is what a workload may always hold.
	leastMemory topology.KiB = 64 << 10

	mebi topology.KiB = 1 << 10
)

// MemoryBudget is what batch work may hold of a node:
//
//	budget = capacity × target − online use − system use − what stays free
func MemoryBudget(n *MemoryNode, target float64) topology.KiB {
	return max(0, topology.KiB(float64(n.Capacity)*(target-freeMemory))-n.Online-n.System)
}

// Memory computes the limit of each batch workload: its current use and an equal part of the rest
// of the budgets; on a node over budget, its part of the budget. Per scan a limit falls by at most
// a tenth of the use, and grows by at most a tenth of the limit; while the host stalls it falls by
// a fiftieth and does not grow.
func Memory(in MemoryInput) []MemoryLimit {
	want := make([]float64, len(in.Work))
	held := make([]topology.KiB, len(in.Work))
	for i := range in.Work {
		held[i] = workload.Total(in.Work[i].On)
	}
	for k := range in.Nodes {
		n := &in.Nodes[k]
		budget := float64(MemoryBudget(n, in.Target))
		var used float64
		for i := range in.Work {
			used += float64(workload.On(in.Work[i].On, topology.Nodes(n.ID)))
		}
		for i := range in.Work {
			on := float64(workload.On(in.Work[i].On, topology.Nodes(n.ID)))
			if used > budget {
				want[i] += on * budget / used
			} else {
				want[i] += on + (budget-used)/float64(len(in.Work))
			}
		}
	}
	stalled := in.Stalled > stalledMost
	step := memoryStep
	if stalled {
		step = stallStep
	}
	out := make([]MemoryLimit, 0, len(in.Work))
	for i := range in.Work {
		w := &in.Work[i]
		high := max(topology.KiB(want[i]), topology.KiB(float64(held[i])*(1-step)), leastMemory)
		why := words.Because(words.ShareMemory, high, in.Target)
		switch {
		case w.Now > 0 && high > w.Now && stalled:
			high, why = w.Now, words.Because(words.ShareMemoryStalled, w.Now, in.Stalled)
		case w.Now > 0:
			high = min(high, w.Now+max(leastMemory, topology.KiB(float64(w.Now)*memoryStep)))
		}
		high = (high + mebi - 1) / mebi * mebi
		if off := high - w.Now; w.Now > 0 && max(off, -off) <= topology.KiB(float64(w.Now)*memorySlack) {
			high = w.Now
		}
		out = append(out, MemoryLimit{w.ID, high, why})
	}
	return out
}

// IOPart returns the equal part of each workload in the limit of all, in the format of io.max
// (cgroup-v2.rst), with devices separated by "; "; "" for no limit.
func IOPart(all []IOMax, among int) string {
	var out []string
	for i := range all {
		m := &all[i]
		line := m.Device
		for _, x := range []struct {
			key   string
			limit int64
			least int64
		}{{"rbps", m.Read, 4096}, {"wbps", m.Write, 4096}, {"riops", m.ReadIOPS, 1}, {"wiops", m.WriteIOPS, 1}} {
			part := "max"
			if x.limit > 0 {
				part = strconv.FormatInt(max(x.least, x.limit/int64(max(1, among))), 10)
			}
			line += " " + x.key + "=" + part
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}
