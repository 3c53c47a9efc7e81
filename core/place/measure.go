package place

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

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

// Subject is a running workload to be arranged.
type Subject struct {
	Spec        workload.Spec
	Observation workload.Observation
	Alone       words.Reason // why it is not homenode's to place; none when it is
	// Aside is why it gets no home by what it asks for; one that it has, or what was given
	// (Spec.Given), counts all the same.
	Aside words.Reason
	// Fixed: it is where its placement in the State says and nothing moves it, such as a
	// guest with its own CPUs. No step is made for it, and nobody else gets what it holds.
	Fixed bool
	// Crowd: a new home is found as Request.Crowd says.
	Crowd bool
	// Booked: what it uses is in the ledger under another name, and counts there.
	Booked bool
}

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
func Entitled(s *Subject, use, saturated float64) float64 {
	if saturated == 0 {
		return use
	}
	want := use * (1 + (cpuHeadroom-1)*saturated)
	most := want
	if n := s.Observation.Threads; n > 0 {
		most = float64(n)
	}
	if s.Spec.Given && s.Spec.CPUs > 0 {
		most = min(most, float64(s.Spec.CPUs))
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

// Measure has the ledger count shared work by what it is entitled to of what it was seen to use, and no
// longer by what it has booked: that is a wish, rounded up. What was not seen to run goes on to
// count as booked, and room is still what bookings leave.
func (l *Ledger) Measure(subjects []*Subject) {
	busy := make([]float64, len(l.nodes))
	each := func(s *Subject, yield func(i int, share float64)) {
		for _, r := range s.Observation.RanOn {
			if i := l.index(r.Node); i >= 0 {
				yield(i, r.Share)
			}
		}
	}
	for _, s := range subjects {
		if s.Spec.Class != workload.Batch {
			each(s, func(i int, share float64) { busy[i] += share * s.Observation.CPUUse })
		}
	}
	for _, s := range subjects {
		if len(s.Observation.RanOn) == 0 {
			continue
		}
		k, ok := l.find(s.Observation.ID)
		if !ok || l.held[k].Class != workload.Shared {
			continue
		}
		saturated := 0.0
		each(s, func(i int, share float64) { saturated += share * Saturated(busy[i], float64(l.nodes[i].open()), Fills) })
		h := l.held[k]
		l.bookUnused(h, -1)
		h.unused = micro((float64(h.VCPUs) - min(Entitled(s, s.Observation.CPUUse, saturated), topology.MaxID)) * 1e6)
		l.bookUnused(h, 1)
	}
}
