package place

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// InTheWay says what stands where the partition of st's policy does not let it, in the
// order of st.Placements: dedicated work beyond it, and shared work whose nodes keep
// too few CPUs for it. It is nil when the partition may be as it is.
func InTheWay(st plan.State) []words.Reason {
	var out []words.Reason
	if !st.Policy.Split {
		return nil
	}
	l := NewLedger(st)
	for i := range st.Placements {
		p := &st.Placements[i]
		switch p.Class {
		case workload.Dedicated:
			if bad := p.CPUs.Union(p.Idle).Minus(st.Policy.Dedicated); !bad.Empty() {
				out = append(out, words.Because(words.PartitionCPUs, p.Workload, bad))
			}
		case workload.Shared:
			var tight topology.NodeSet
			for _, id := range p.Home.Slice() {
				k := l.index(id)
				if k < 0 { // the host has lost it, and the next look gives another home
					continue
				}
				n := &l.nodes[k]
				if n.sharedVCPUs() > l.overcommit()*float64(n.Open())+tiny ||
					(l.host.Nodes[k].CPUs.Len() > 0 && n.Open() == 0) {
					tight.Add(id)
				}
			}
			if !tight.Empty() {
				out = append(out, words.Because(words.PartitionNoRoom, p.Workload, tight))
			}
		}
	}
	return out
}
