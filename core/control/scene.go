package control

import (
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Types of package scene that are part of the inputs and the checkpoints of this one.
type (
	Admission  = scene.Admission
	Claimed    = scene.Claimed
	Link       = scene.Link
	Manager    = scene.Manager
	binding    = scene.Binding
	processKey = scene.ProcessKey
)

// basis returns what the scene needs besides the scan and the surveys.
func (s *State) basis() *scene.Basis {
	return &scene.Basis{
		Settings:   s.Settings.Scene(),
		Journal:    &s.Journal,
		Admissions: s.Admissions,
		Work:       (*underway)(s),
		Facts:      &s.Facts,
	}
}

// underway is a State as the scene knows it.
type underway State

func (w *underway) Held(id workload.ID) bool     { return w.Holds.Has(id) }
func (w *underway) Changing(id workload.ID) bool { return w.Work.Changing(id) }
func (w *underway) Busy(id workload.ID) bool     { return w.Tasks[id] != nil }

func (w *underway) Trouble(id workload.ID) *scene.Trouble {
	silent, isSilent := w.Silent[id]
	others, overwritten := w.Overwrites[id]
	if !isSilent && !overwritten {
		return nil
	}
	var t scene.Trouble
	if w.SilentNow(id) { // it is tried again after that
		t.Silent = silent.Why()
	}
	if others.Count >= work.MostOverwrites && w.At.Sub(others.Last) < work.GiveInFor {
		t.GivenIn = words.Because(words.GivenIn, others.Count, work.GiveInFor)
	}
	return &t
}

// ProcessID returns the workload that a process is the root of.
func ProcessID(pid int) workload.ID { return scene.ProcessID(pid) }

// SpecOf returns what is wanted for a workload.
func (s *State) SpecOf(o *workload.Observation) workload.Spec { return s.Scene.SpecOf(s.basis(), o) }

// origin returns the party behind a request and the party that made its wishes. Another program of the
// system names the party that it asks for.
func (s *State) origin(in *PlaceRequest) workload.Origin {
	from := in.From
	asker := workload.SystemOwner
	if s.by != nil {
		asker = s.by.Responsible()
	}
	if asker != workload.SystemOwner || from.Owner == workload.SystemOwner {
		return workload.Origin{Owner: asker, Asked: workload.AllOwn}
	}
	granted := workload.Granted(s.Settings.Grants, workload.MayBeDedicated, from.Owner)
	if granted && from.Asked.Class == workload.Own {
		from.Asked = workload.Asked{Class: workload.Operator, CPUs: workload.Operator, Memory: workload.Operator}
	}
	return from
}

// Functions of the scene with its basis.

func (s *State) mayBook(spec *workload.Spec, from *workload.Origin) words.Reason {
	return s.MayBook(s.basis(), spec, from)
}

func (s *State) subjects(all []workload.Observation) []*place.Subject {
	return s.Decidable(s.basis(), all)
}

func (s *State) leave(o *workload.Observation, names []string) words.Reason {
	return s.LeftAlone(s.basis(), o, names)
}

func (s *State) withClaims(ledger []workload.Placement, h *topology.Host) []workload.Placement {
	return s.withAdmissions(s.WithClaims(s.basis(), ledger, h))
}

// VhostUse returns the share of one link in the CPUs that the vhost threads of its workload use.
func VhostUse(links []Link, i int) float64 { return scene.VhostUse(links, i) }

// Matches reports whether a glob pattern fits a workload, or the cgroup that it runs in.
func Matches(pattern string, o *workload.Observation) bool { return scene.Matches(pattern, o) }
