package place

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Helper is a workload that works for others: a storage daemon, a software switch, a TPM.
type Helper struct {
	ID      workload.ID
	Memory  topology.KiB // resident
	Stays   words.Reason // why it may not be moved; none when it may
	Clients []Client     // rising by ID
}

// Client is a workload that a helper works for.
type Client struct {
	ID     workload.ID
	Memory topology.KiB     // resident
	Nodes  topology.NodeSet // its home, else where it runs; empty when unknown
	Stays  words.Reason     // why it may not be moved, or should not be; none when it may
}

// Following is who of a helper and its clients goes to the other.
type Following struct {
	Follows bool             // the helper goes; else its clients are pulled to it
	Of      []workload.ID    // those that it works for, of which it is known where they are
	To      []workload.Near  // what the helper is to be near to, when it follows
	Nodes   topology.NodeSet // that all its clients are on; empty for none
	Why     words.Reason
}

// copiesPerMove is the memory whose copying costs as much as any move of a workload does
// (core/balance, moveFixed and copyRate).
const copiesPerMove = topology.KiB(1 << 20)

// Follow decides whether a helper goes to those that it works for, or they to it: who may be
// moved, and of those whose move costs less. false when nobody knows where its clients are.
func Follow(h *Helper) (f Following, known bool) {
	var all, common topology.NodeSet
	var names []string
	var memory, cost topology.KiB
	var bound words.Reason
	for i := range h.Clients {
		c := &h.Clients[i]
		if c.Nodes.Empty() {
			continue
		}
		if f.Of, names = append(f.Of, c.ID), append(names, string(c.ID)); len(names) == 1 {
			common = c.Nodes
		}
		all, common = all.Union(c.Nodes), common.Intersect(c.Nodes)
		memory, cost = memory+c.Memory, cost+c.Memory+copiesPerMove
		if bound.None() && !c.Stays.None() {
			bound = words.Because(words.ClientStays, c.ID, c.Stays)
		}
	}
	f.Nodes = common
	switch {
	case len(names) == 0:
		return f, false
	case !h.Stays.None():
		f.Why = words.Because(words.HelperStays, names, h.Stays)
	case common.Empty():
		f.Why = words.Because(words.HelperServesMany, names, all)
	case bound.None() && h.Memory+copiesPerMove > cost:
		f.Why = words.Because(words.HelperIsLarger, names, h.Memory, memory)
	default:
		f.Follows = true
		f.Why = words.Because(words.HelperFollows, names, h.Memory, memory)
		if !bound.None() {
			f.Why = words.Because(words.HelperFollowsBound, names, bound)
		}
		for i := range h.Clients {
			if c := &h.Clients[i]; !c.Nodes.Empty() {
				f.To = append(f.To, workload.Near{Workload: c.ID, Nodes: c.Nodes, Learned: true, Serves: true, Weight: 1 / float64(len(names))})
			}
		}
		f.To = slices.Clip(f.To)
	}
	return f, true
}
