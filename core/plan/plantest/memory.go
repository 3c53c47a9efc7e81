package plantest

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// MoveHalf is mem after half 0 or 1 of a page move to home, and what was moved. Of each
// node pinned stays where it is.
func MoveHalf(mem []workload.NodeMemory, home topology.NodeSet, half int,
	pinned topology.KiB) (after []workload.NodeMemory, moved topology.KiB) {
	for _, x := range mem {
		if !home.Has(x.Node) {
			part := x.KiB
			if half == 0 {
				part /= 2
			} else {
				part = max(0, part-pinned)
			}
			moved += part
			x.KiB -= part
		}
		after = append(after, x)
	}
	i := slices.IndexFunc(after, func(x workload.NodeMemory) bool { return x.Node == home.Min() })
	if i < 0 {
		after = append(after, workload.NodeMemory{Node: home.Min()})
		i = len(after) - 1
	}
	after[i].KiB += moved
	after = slices.DeleteFunc(after, func(x workload.NodeMemory) bool { return x.KiB == 0 })
	slices.SortFunc(after, func(a, b workload.NodeMemory) int { return cmp.Compare(a.Node, b.Node) })
	return after, moved
}
