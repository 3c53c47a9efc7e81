package api

import (
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// UsedKiB is the memory of a node that is neither free nor can be given back by the kernel; not
// known where the node has none, or what is free is not known.
func (n *Node) UsedKiB() (used int64, known bool) {
	if n.MemoryKiB <= 0 || n.FreeKiB < 0 {
		return 0, false
	}
	used = n.MemoryKiB - n.FreeKiB
	if n.ReclaimableKiB != nil {
		used -= *n.ReclaimableKiB
	}
	return max(0, used), true
}

// IdleUse is the CPUs that a workload counts with at least in a Locality.
const IdleUse = 0.01

// Local adds up shares of local accesses; each workload counts by the CPUs that it keeps busy, and by
// IdleUse at least.
type Local struct{ local, all float64 }

// Add counts a workload with a share of local accesses, 0 to 1, that keeps so many CPUs busy.
func (l *Local) Add(share, cpus float64) {
	use := max(cpus, IdleUse)
	l.local, l.all = l.local+use*share, l.all+use
}

// Share is that of all that was added, 0 to 1; nil of nothing.
func (l *Local) Share() *float64 {
	if l.all == 0 {
		return nil
	}
	return new(l.local / l.all)
}

// Locality is the share of local accesses over all online workloads of which it is known, each
// counting by the CPUs that it keeps busy: now, and when all steps are done. nil is unknown. Batch
// work does not count: it has no home and runs where CPUs are idle.
func (s *Status) Locality() (now, after *float64) {
	var local, expected Local
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if w.Locality == nil || w.Class == workload.Batch {
			continue
		}
		local.Add(*w.Locality, w.CPUUse)
		if w.LocalityExpected != nil {
			expected.Add(*w.LocalityExpected, w.CPUUse)
		} else {
			expected.Add(*w.Locality, w.CPUUse)
		}
	}
	return local.Share(), expected.Share()
}

// Batch is how many batch workloads there are, and the CPUs that they keep busy.
func (s *Status) Batch() (n int, cpus float64) {
	for i := range s.Workloads {
		if w := &s.Workloads[i]; w.Class == workload.Batch {
			n, cpus = n+1, cpus+w.CPUUse
		}
	}
	return n, cpus
}

// OneNode reports whether the host has one NUMA node, so that all memory is local wherever work runs.
func (s *Status) OneNode() bool { return len(s.Nodes) == 1 }

// OneNodeSays returns the sentence for a host of one NUMA node, by whether its CPUs share one last-level cache.
func (s *Status) OneNodeSays() words.Reason {
	if s.Caches != nil {
		return words.Because(words.SplitNode, s.Caches.Count)
	}
	return words.Because(words.SingleNode)
}

// Settled reports whether no workload moves, waits or is in trouble.
func (s *Status) Settled() bool {
	for i := range s.Workloads {
		if !AtRest(s.Workloads[i].State) {
			return false
		}
	}
	return true
}

// Moving reports whether a page move of a workload is under way, also while it pauses.
func (w *Workload) Moving() bool {
	return w.Move != nil && (w.State == StateMoving || w.State == StatePaused)
}

// AtRest reports whether a workload in this state neither moves, waits nor is in trouble.
func AtRest(state string) bool { return state == StateAtHome || state == StateLeftAlone }

// AtHome is how many workloads are at home.
func (s *Status) AtHome() (n int) {
	for i := range s.Workloads {
		if s.Workloads[i].State == StateAtHome {
			n++
		}
	}
	return n
}

// Worst is the workload of the least locality, the first of equal ones; nil when none is known.
// Batch work, which has no home, do not count.
func (s *Status) Worst() (worst *Workload) {
	for i := range s.Workloads {
		if w := &s.Workloads[i]; w.Locality != nil && w.Class != workload.Batch &&
			(worst == nil || *w.Locality < *worst.Locality) {
			worst = w
		}
	}
	return worst
}
