package scene

import (
	"maps"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Named returns a snapshot in which workloads have the names that `homenode run` was given.
func Named(admissions map[workload.ID]Admission, snap workload.Snapshot) workload.Snapshot {
	if len(admissions) == 0 {
		return snap
	}
	snap.Observations = slices.Clone(snap.Observations) // the recorder has the other
	for i := range snap.Observations {
		o := &snap.Observations[i]
		a, ok := admissions[o.ID]
		if ok && a.Spec.Name != "" && a.started(o) {
			o.Name = a.Spec.Name
		}
	}
	return snap
}

// DropReplaced removes observations of processes that ended after the scan saw them, and whose PID
// `homenode run` has by now: what is known of one is not true of the other.
func (s *Scene) DropReplaced(admissions map[workload.ID]Admission) {
	for _, id := range sortedKeys(admissions) {
		a, o := admissions[id], s.Observation(id)
		if o == nil || o.Kind != workload.InProcess {
			continue
		}
		if a.Process.PID == 0 || a.Scan < s.Seen {
			continue
		}
		if StartOf(o) < a.Process.Start {
			same := func(x workload.Observation) bool { return x.ID == id }
			s.Snapshot.Observations = slices.DeleteFunc(slices.Clone(s.Snapshot.Observations), same)
		}
	}
}

// Note adds to decisions what the sources say of where workloads are, and which of them are beyond the
// ceiling. Readers have the decisions that it is given.
func (s *Scene) Note(decisions []plan.Decision) []plan.Decision {
	if len(s.Claims) == 0 && len(s.Beyond) == 0 {
		return decisions
	}
	own := false
	say := func(i int, why words.Reason) {
		if !own { // a later plan may have the others
			decisions, own = slices.Clone(decisions), true
		}
		d := &decisions[i]
		d.Reasons = append(slices.Clip(d.Reasons), why)
	}
	for i := range decisions {
		id := decisions[i].Workload
		c := s.Claims[id]
		if c != nil && !c.Note.None() {
			say(i, c.Note)
		}
		why, beyond := s.Beyond[id]
		if beyond {
			say(i, words.Because(words.CountsAsUsed, why))
		}
	}
	return decisions
}

// WithParts returns the workloads that are held by name, with their parts, rising.
func (s *Scene) WithParts(held map[workload.ID]bool) []workload.ID {
	out := slices.Collect(maps.Keys(held))
	for id, c := range s.Claims {
		if c.Part != nil && held[c.Part.Of] && !held[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}
