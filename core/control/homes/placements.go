package homes

import (
	"cmp"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Merge puts changed placements over others, rising by workload.
func Merge(placements, changed []workload.Placement) []workload.Placement {
	byID := make(map[workload.ID]workload.Placement, len(placements)+len(changed))
	for _, p := range placements {
		byID[p.Workload] = p
	}
	for _, p := range changed {
		byID[p.Workload] = p
	}
	return slices.SortedFunc(maps.Values(byID), ByWorkload)
}

// ByWorkload compares placements by their workload.
func ByWorkload(a, b workload.Placement) int { return cmp.Compare(a.Workload, b.Workload) }

// SamePlacements compares ledgers so that the disk is written only on change.
func SamePlacements(a, b []workload.Placement) bool {
	if len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] {
		return true
	}
	return slices.EqualFunc(a, b, samePlacement)
}

func samePlacement(x, y workload.Placement) bool {
	work := x.Workload == y.Workload && x.Start == y.Start
	size := x.Class == y.Class && x.VCPUs == y.VCPUs
	home := x.Home.Equal(y.Home) && x.CPUs.Equal(y.CPUs)
	return work && size && home && slices.Equal(x.Pins, y.Pins) && slices.Equal(x.Memory, y.Memory)
}

// sharing returns placements in which the thousands that have one of a few homes and CPU
// sets share those: they are compared and walked at every scan.
func sharing(placements []workload.Placement) []workload.Placement {
	out := slices.Clone(placements)
	var homes []topology.NodeSet
	var cpus []topology.CPUSet
	for i := range out {
		out[i].Home, homes = shared(homes, out[i].Home)
		out[i].CPUs, cpus = shared(cpus, out[i].CPUs)
	}
	return out
}

// shared returns one of the sets that is the same, or the set, which is then one of them.
func shared[T ~int](sets []topology.Set[T], set topology.Set[T]) (topology.Set[T], []topology.Set[T]) {
	const most = 64 // to go through
	for i := range sets {
		if sets[i].Equal(set) {
			return sets[i], sets
		}
	}
	if len(sets) < most {
		sets = append(sets, set)
	}
	return set, sets
}
