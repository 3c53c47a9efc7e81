package homes

import (
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Now is what is known besides the homes when a home is asked for.
type Now struct {
	At       time.Time        // of the request
	Begun    uint64           // the newest scan that has begun
	Seen     uint64           // the newest scan that has ended
	Subjects []*place.Subject // of that scan, rising by ID
	Claims   map[workload.ID]*workload.Claim
}

// Book puts placements into the newest plan and the ledger.
func (h *Homes) Book(now *Now, changed ...workload.Placement) {
	if h.homes == nil {
		h.homes = plan.HomesOf(h.Plan.Placements)
	}
	h.homes = h.homes.With(changed...)
	for _, p := range changed {
		h.Ledger(now).Commit(p)
	}
}

// WithAdmissions returns placements with the homes of what was admitted and is not seen yet.
// seen is the newest scan that has ended.
func (h *Homes) WithAdmissions(placements []workload.Placement, seen uint64) []workload.Placement {
	var add []workload.Placement
	for id, a := range h.Admissions {
		if a.Exact {
			continue
		}
		if a.Process.PID == 0 {
			add = append(add, a.Placement)
			continue
		}
		if place.Of(placements, id) == nil && a.Scan >= seen {
			add = append(add, a.Placement)
		}
	}
	if len(add) == 0 {
		return placements
	}
	return Merge(placements, add)
}

// Ledger returns what is booked now, for requests between two scans.
func (h *Homes) Ledger(now *Now) *place.Ledger {
	if h.ledger == nil {
		h.ledger = place.NewLedger(h.state(now))
		h.ledger.Measure(now.Subjects)
		h.countExact(now.Seen)
	}
	return h.ledger
}

// state returns the facts with all homes that are booked now.
func (h *Homes) state(now *Now) plan.State {
	st := h.Facts
	st.Placements = h.WithAdmissions(h.Placements(), now.Seen)
	st.Policy.Reserved = st.Policy.Reserved.Union(notLeft(st.Placements, now.Subjects))
	return st
}

// notLeft returns the CPUs that dedicated work is pinned to by the newest scan and has lost since, as after
// an order whose steps are not carried out yet. What others are given by now is theirs.
func notLeft(homes []workload.Placement, seen []*place.Subject) (cpus topology.CPUSet) {
	for i := range homes {
		p := &homes[i]
		if p.Class != workload.Dedicated {
			continue
		}
		s := place.SubjectOf(seen, p.Workload)
		pinned := s != nil && s.Observation.CPUs.Len() <= p.CPUs.Len()+p.Idle.Len()
		if pinned {
			cpus = cpus.Union(s.Observation.CPUs)
		}
	}
	return cpus.Minus(dedicatedCPUs(homes, ""))
}

// dedicatedCPUs returns the CPUs that homes have for one workload each, except for those of one workload.
func dedicatedCPUs(homes []workload.Placement, except workload.ID) (cpus topology.CPUSet) {
	for i := range homes {
		if p := &homes[i]; p.Class == workload.Dedicated && p.Workload != except {
			cpus = cpus.Union(p.CPUs).Union(p.Idle)
		}
	}
	return cpus
}

// HasLedger reports whether a ledger was made since the newest facts.
func (h *Homes) HasLedger() bool { return h.ledger != nil }

// DropLedger forgets the ledger: what it was made on has changed.
func (h *Homes) DropLedger() { h.ledger = nil }

// countExact counts in the ledger, until a scan sees it, what a person put somewhere.
func (h *Homes) countExact(seen uint64) {
	for _, id := range sortedKeys(h.Admissions) {
		a := h.Admissions[id]
		if !a.Exact || a.Scan < seen {
			continue
		}
		o := workload.Observation{ID: id, CPUUse: float64(a.Spec.CPUs), Memory: a.Placement.Memory}
		for i := range h.Facts.Host.Nodes {
			n := &h.Facts.Host.Nodes[i]
			if on := n.CPUs.Overlap(a.Placement.CPUs); on > 0 {
				o.RanOn = append(o.RanOn,
					workload.NodeShare{Node: n.ID, Share: float64(on) / float64(a.Placement.CPUs.Len())})
			}
		}
		h.ledger.AddForeign(&o)
	}
}
