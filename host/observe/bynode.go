package observe

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// byNode is memory by node ID.
type byNode []topology.KiB

func (b *byNode) add(node int, kib topology.KiB) {
	for node >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[node] += kib
}

func (b *byNode) addAll(other byNode) {
	for n, kib := range other {
		if kib != 0 {
			b.add(n, kib)
		}
	}
}

func (b byNode) at(node int) topology.KiB {
	if node < len(b) {
		return b[node]
	}
	return 0
}

func (b byNode) total() topology.KiB {
	var t topology.KiB
	for _, kib := range b {
		t += kib
	}
	return t
}

// scaled is b with its total made want, each node in proportion.
func (b byNode) scaled(want topology.KiB) byNode {
	total := b.total()
	if total <= 0 || want >= total {
		return b
	}
	out := make(byNode, len(b))
	for n, kib := range b {
		out[n] = topology.KiB(float64(kib) * float64(want) / float64(total))
	}
	return out
}

// list is the nodes that have any.
func (b byNode) list() []workload.NodeMemory {
	var out []workload.NodeMemory
	for n, kib := range b {
		if kib > 0 {
			out = append(out, workload.NodeMemory{Node: topology.NodeID(n), KiB: kib})
		}
	}
	return out
}
