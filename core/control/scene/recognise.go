package scene

import (
	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/workload"
)

// Recognise brings the kind of load of each workload up to date. Without it none is known.
func (s *Scene) Recognise(on bool) {
	if !on {
		s.Loads = nil
		return
	}
	now := map[workload.ID]load.Load{}
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		l, known := s.Loads[o.ID]
		if !known && o.Slices.PerSecond <= 0 {
			continue
		}
		was := s.beforeOf(o.ID)
		if was != nil && StartOf(was) != StartOf(o) { // another process with its PID
			l = load.Load{}
		}
		now[o.ID] = l.Look(o, s.Began)
	}
	s.Loads = now
}

// weigh gives a workload without an importance the one that its kind of load suggests.
func (s *Scene) weigh(spec *workload.Spec, o *workload.Observation, rule *workload.Rule) {
	l := s.Loads[o.ID]
	if l.Importance > 0 && unweighed(spec, rule) {
		spec.Importance = l.Importance
	}
}

// unweighed reports whether a workload has the default importance because no person gave it one.
func unweighed(spec *workload.Spec, rule *workload.Rule) bool {
	if rule != nil && rule.Importance != nil {
		return false
	}
	return spec.Class == workload.Shared && spec.Importance == workload.DefaultImportance
}
