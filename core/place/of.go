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
	i, ok := slices.BinarySearchFunc(placements, id,
		func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
	if !ok {
		return nil
	}
	return &placements[i]
}

// SubjectOf looks a workload up in subjects, which rise by ID; nil when it is not among them.
func SubjectOf(subjects []*Subject, id workload.ID) *Subject {
	byID := func(s *Subject, id workload.ID) int { return cmp.Compare(s.Observation.ID, id) }
	i, ok := slices.BinarySearchFunc(subjects, id, byID)
	if !ok {
		return nil
	}
	return subjects[i]
}
