package place

import (
	"fmt"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Pinned is a process, or a thread of it, that may run on a few CPUs only and has no
// placement: whoever pinned it there meant those CPUs for it.
type Pinned struct {
	PID  int
	CPUs topology.CPUSet
}

// IsPin reports whether CPUs are so few that a process is pinned to them, and not just kept
// on some nodes: fewer than the smallest node with CPUs has.
func IsPin(h *topology.Host, cpus topology.CPUSet) bool {
	least := 0
	for i := range h.Nodes {
		if n := h.Nodes[i].CPUs.Len(); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	n := cpus.Len()
	return n > 0 && n < least
}

// PlaceBeside finds a home for one workload where no ledger has all that runs: st has the
// placements that are known, pinned what is seen besides. Dedicated work keeps off the CPUs
// of what is pinned; others share them, as the scheduler has them do.
func PlaceBeside(st plan.State, pinned []Pinned, req Request) Result {
	var taken topology.CPUSet
	if req.Spec.Class == workload.Dedicated {
		for _, p := range pinned {
			taken = taken.Union(p.CPUs)
		}
	}
	free := st
	free.Policy.Reserved = st.Policy.Reserved.Union(taken.Intersect(st.Host.Online))
	r := Place(free, req)
	if r.Placed() || taken.Empty() || !Place(st, req).Placed() {
		return r
	}
	var who []string
	for _, p := range pinned {
		who = append(who, fmt.Sprintf("%d (CPU %s)", p.PID, p.CPUs))
	}
	r.Decision.Reasons = append(r.Decision.Reasons, words.Because(words.PinnedThere, words.Some(who, 3)))
	return r
}
