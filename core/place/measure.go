package place

import (
	"github.com/homenode/homenode/core/place/cores"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Subject is a running workload to be arranged.
type Subject struct {
	Spec        workload.Spec
	Observation workload.Observation
	Alone       words.Reason // why it is not homenode's to place; none when it is
	// Aside is why it gets no home by what it asks for; one that it has, or what was given
	// (Spec.Given), still counts.
	Aside words.Reason
	// Fixed: it is where its placement in the State says and nothing moves it, such as a
	// guest with its own CPUs. No step is made for it, and its CPUs and memory go to no other work.
	Fixed bool
	// Crowd: a new home is found as Request.Crowd says.
	Crowd bool
	// Booked: what it uses is in the ledger under another name, and counts there.
	Booked bool
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
		each(s, func(i int, share float64) {
			saturated += share * demand.Saturated(busy[i], float64(l.nodes[i].Open()), demand.Fills)
		})
		entitled := demand.Entitled(&s.Spec, &s.Observation, s.Observation.CPUUse, saturated)
		h := l.held[k]
		l.bookUnused(h, -1)
		h.unused = cores.Micro((float64(h.VCPUs) - min(entitled, topology.MaxID)) * 1e6)
		l.bookUnused(h, 1)
	}
}
