package control

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/workload"
)

// recognise looks at the kind of load of each workload.
func (s *State) recognise() {
	if s.Settings.Recognise == "" || s.Settings.Recognise == RecogniseOff {
		s.Loads = nil
		return
	}
	now := map[workload.ID]load.Load{}
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		if l, known := s.Loads[o.ID]; known || o.Slices.PerSecond > 0 {
			if was := s.beforeOf(o.ID); was != nil && startOf(was) != startOf(o) { // another process with its PID
				l = load.Load{}
			}
			now[o.ID] = l.Look(o, s.Began)
		}
	}
	s.Loads = now
}

// beforeOf is a workload as the scan before saw it; nil when it did not.
func (s *State) beforeOf(id workload.ID) *workload.Observation {
	all := s.before.Observations
	i, ok := slices.BinarySearchFunc(all, id, func(o workload.Observation, id workload.ID) int { return cmp.Compare(o.ID, id) })
	if !ok {
		return nil
	}
	return &all[i]
}

// weighted gives a workload of which nobody has said how important it is the importance that its
// kind of load suggests, where the configuration says so.
func (s *State) weighted(spec *workload.Spec, o *workload.Observation, rule *workload.Rule) {
	if l := s.Loads[o.ID]; s.Settings.Recognise == RecogniseApply && l.Importance > 0 && Untold(spec, rule) {
		spec.Importance = l.Importance
	}
}

// Untold reports whether nobody has said how important a workload is.
func Untold(spec *workload.Spec, rule *workload.Rule) bool {
	return spec.Class == workload.Shared && spec.Importance == workload.DefaultImportance && (rule == nil || rule.Importance == nil)
}
