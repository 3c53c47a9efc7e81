package nearness

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Helper is a workload that works for others: a storage daemon, a software switch, a TPM.
type Helper struct {
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

// Following is the answer for a helper: it goes to its clients, or they come to it.
type Following struct {
	Follows bool             // the helper goes; else its clients are pulled to it
	Of      []workload.ID    // its clients whose nodes are known
	To      []workload.Near  // what the helper should be near to, when it follows
	Nodes   topology.NodeSet // that all its clients are on; empty for none
	Why     words.Reason
}

// copiesPerMove is the memory, KiB, whose copying costs as much as the fixed part of any move
// (core/balance, moveFixed and copyRate).
const copiesPerMove = topology.KiB(1 << 20)

// Follow decides whether a helper goes to its clients, or they come to it: the side that may move, and where both may,
// the one whose move costs less. known is false when no client has known nodes.
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
		if len(names) == 0 {
			common = c.Nodes
		}
		f.Of = append(f.Of, c.ID)
		names = append(names, string(c.ID))
		all = all.Union(c.Nodes)
		common = common.Intersect(c.Nodes)
		memory += c.Memory
		cost += c.Memory + copiesPerMove
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
				f.To = append(f.To, workload.Near{
					Workload: c.ID, Nodes: c.Nodes, Learned: true, Serves: true, Weight: 1 / float64(len(names)),
				})
			}
		}
		f.To = slices.Clip(f.To)
	}
	return f, true
}
