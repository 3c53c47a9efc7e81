package arrange

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// asBefore is whether shared work on one node stays as it is.
type asBefore struct {
	may   bool  // its placement can stay as it is if there is room for what it books
	kept  bool  // it does
	stays bool  // and without any step
	group int32 // in the order of placing, see sort
	books place.AsBefore
}

// asBefore asks what keepOne asks, but for the room.
func (a *arrangement) asBefore(s *subject) (b asBefore) {
	old := s.old
	obs := &s.Observation
	if !old.Bound && !obs.Caps.Rebinds && !obs.Mems.Empty() && !a.host.AllowedMems.SubsetOf(obs.Mems) { // see request
		return b
	}
	cpus, memory := steadySize(&s.Spec, old)
	if b.books, b.may = a.ledger.AsBefore(old, &s.Spec, cpus, memory); b.may {
		b.stays = old.CPUs.Equal(obs.CPUs) && len(a.steps(s, old)) == 0
	}
	return b
}

// keepAsBefore keeps a placement as it is if there is room.
func (a *arrangement) keepAsBefore(s *subject) bool {
	b := &s.asBefore
	b.kept = b.may && a.filling.Keep(s.number, s.old, &b.books)
	return b.kept
}

// keepGroup keeps those that stay as they are and stand together in the order of placing. As
// long as there is room for all of them none is refused, whichever comes first.
func (a *arrangement) keepGroup(group []*subject) {
	if !a.fits(group) {
		slices.SortFunc(group, func(x, y *subject) int { return a.key(a.at(x)).compare(a.key(a.at(y))) })
	}
	for _, s := range group {
		if !a.keepAsBefore(s) {
			a.keepOne(s)
		}
	}
}

// at is the position of a subject.
func (a *arrangement) at(s *subject) int {
	i, _ := slices.BinarySearchFunc(a.subjects, s.Observation.ID, func(x subject, id workload.ID) int {
		return cmp.Compare(x.Observation.ID, id)
	})
	return i
}

// fits reports whether there is room for all of a group.
func (a *arrangement) fits(group []*subject) bool {
	return len(group) < 2 || a.filling.Fits(func(yield func(*place.AsBefore) bool) {
		for _, s := range group {
			if !yield(&s.asBefore.books) {
				return
			}
		}
	})
}

// decideAsBefore writes the decisions on subjects that were kept.
func (a *arrangement) decideAsBefore() {
	for i := range a.subjects {
		if s := &a.subjects[i]; s.asBefore.kept {
			*s.decision = plan.Decision{
				Workload: s.old.Workload, Outcome: plan.Kept, Home: s.old.Home, Reasons: a.home(s.old.Home).kept,
			}
		}
	}
}
