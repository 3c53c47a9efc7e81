package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Of looks a workload's placement up in placements, which rise by workload; nil when it
// has none.
func Of(placements []plan.Placement, id workload.ID) *plan.Placement {
	i, ok := slices.BinarySearchFunc(placements, id, func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
	if !ok {
		return nil
	}
	return &placements[i]
}
