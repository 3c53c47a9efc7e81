package control

import (
	"cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// asTold is a value of a setting as the history has it: an empty set means all CPUs or nodes, an
// empty version none.
func asTold(kind plan.SettingKind, value string) string {
	if kind == plan.Scheduler {
		return cmp.Or(value, "none")
	}
	return words.OrAll(value)
}

// fromTold is the value before a step as the history has it.
func fromTold(step *plan.Step) string {
	if step.Kind == plan.SetScheduler {
		return asTold(plan.Scheduler, step.From)
	}
	return words.OrAll(step.From)
}

// checkedValue learns the current value of a setting that scans do not see.
func (s *State) checkedValue(id workload.ID, now plan.Setting) {
	e := s.Journal.Of(now.Kind, now.Path)
	switch {
	case e == nil, now.Value == e.New:
	case e.Object != "" && now.Object != "" && e.Object != now.Object:
		s.mark(e, plan.Gone)
	case !e.Ours(now):
		s.foreign(e, now.Value)
	case e.Kind.Fills(): // threads came from elsewhere
		s.mark(e, plan.Intended)
	default:
		s.overwritten(id)
		s.mark(e, plan.Intended)
		s.event(plan.Event{Kind: plan.EventStep, Workload: id, Error: true}, words.SetBack, string(e.Kind), e.Path, now.Value)
	}
}

// chosenByOthers returns the first value that another program has chosen: homenode did not write
// it, and it is not the kernel's default. It stays, also when it is the value wanted, for kinds that
// turn: homenode will want another value of those later.
func (s *State) chosenByOthers(step *plan.Step, changes []plan.Change) *plan.Change {
	if step.Kind != plan.SetCgroup && step.Kind != plan.SetCache {
		return nil
	}
	for i := range changes {
		c := &changes[i]
		unset, known := c.Kind.Unset()
		if !known || c.Value == unset || s.Journal.Of(c.Kind, c.Path) != nil {
			continue
		}
		if c.Value != c.Will || c.Kind.Turns() {
			return c
		}
	}
	return nil
}
