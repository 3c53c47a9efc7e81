package demand

import "github.com/homenode/homenode/core/workload"

const (
	// Fills is the part of a node's CPUs from which work there may want more than it gets: it
	// cannot show that (see cpuHeadroom). Lower values move more for nothing
	// (bench/results/balance-summary.md).
	Fills = 0.94

	// leastWaited is the share of its time that a workload must wait for a CPU before it is
	// split for that. With half of its memory on a node at 1.2 times the local cost, the
	// nearest that is usual, each access costs a tenth more: less waiting is cheaper than
	// any split.
	leastWaited = 0.1
)

// Saturated is how saturated a node is whose work keeps so many of its CPUs busy: 0 up to a part
// of them, 1 where all are busy.
func Saturated(busy, cpus, from float64) float64 {
	if busy <= from*cpus {
		return 0
	}
	return min(1, (busy-from*cpus)/max(1e-9, (1-from)*cpus))
}

// Entitled is the CPUs that a workload would use if it could, of what it was seen to use on nodes
// that are so saturated, 0 to 1: at most its threads, and the CPUs that it was given. It
// grows from nothing, so that of two nodes nearly full neither looks much worse than the other.
func Entitled(s *workload.Spec, o *workload.Observation, use, saturated float64) float64 {
	if saturated == 0 {
		return use
	}
	want := use * (1 + (cpuHeadroom-1)*saturated)
	most := want
	if n := o.Threads; n > 0 {
		most = float64(n)
	}
	if s.Given && s.CPUs > 0 {
		most = min(most, float64(s.CPUs))
	}
	return max(use, min(want, most))
}

// Waited is the share of its time, 0 to 1, in which a workload was measured to wait for a CPU, where
// that is enough to split it; else 0.
func Waited(o *workload.Observation) float64 {
	if o.WaitedFrom == "" || o.Waited < leastWaited {
		return 0
	}
	return o.Waited
}
