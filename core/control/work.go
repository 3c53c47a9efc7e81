package control

import (
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/upkeep"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// This page is how package work and the rest of control meet.

// Types of package work that are part of the inputs, the outputs and the checkpoints of this one.
type (
	EffectKind = work.EffectKind
	Effect     = work.Effect
	Result     = work.Result
	Progress   = work.Progress
	SurveyKind = work.SurveyKind
	Task       = work.Task
	Which      = work.Which
	Undone     = work.Undone
	Code       = work.Code
	Failure    = work.Failure
	Holds      = work.Holds

	retry   = work.Retry
	stepKey = work.Key
	ended   = work.Ended
)

// Kinds of effect; package work describes them.
const (
	EffectRead      = work.EffectRead
	EffectApply     = work.EffectApply
	EffectRestore   = work.EffectRestore
	EffectCheck     = work.EffectCheck
	EffectPresent   = work.EffectPresent
	EffectInherited = work.EffectInherited
	EffectCancel    = work.EffectCancel
	EffectSurvey    = work.EffectSurvey
	EffectChanged   = work.EffectChanged
	EffectScheduler = work.EffectScheduler
	EffectMoved     = work.EffectMoved
)

// Surveys; package work describes them.
const (
	Managers   = work.Managers
	Links      = work.Links
	Interrupts = work.Interrupts
	Isolation  = work.Isolation
)

// Codes of refusals and failures; package work describes them.
const (
	BadRequest = work.BadRequest
	NotFound   = work.NotFound
	Forbidden  = work.Forbidden
	NoRoom     = work.NoRoom
	Failed     = work.Failed
	Gone       = work.Gone
	Fixed      = work.Fixed
	InUse      = work.InUse
	Foreign    = work.Foreign
	Lacking    = work.Lacking
	Unchanged  = work.Unchanged
	NoAnswer   = work.NoAnswer
	NotFrozen  = work.NotFrozen
	Cancelled  = work.Cancelled
)

// loop implements work.Loop beside concern.Loop, with which it shares Observation, Observed, Held,
// Save, Event and Once.

func (l loop) IsRoot(id workload.ID, p workload.Process) bool { return id == scene.ProcessID(p.PID) }
func (l loop) LastScan() uint64                               { return l.s.Seen }
func (l loop) Acts() bool                                     { return l.s.acts() }
func (l loop) Planned() *plan.Plan                            { return &l.s.Plan }
func (l loop) Do(e work.Effect)                               { l.s.note(e) }
func (l loop) SaveEntry(e plan.Entry)                         { l.s.out.Save.Entries = append(l.s.out.Save.Entries, e) }
func (l loop) SaveMove(m plan.Move)                           { l.s.out.Save.Moves = append(l.s.out.Save.Moves, m) }
func (l loop) StepEnded(step *plan.Step, f *work.Failure)     { l.s.stepEnded(step, f) }
func (l loop) PruneSoon()                                     { l.s.PruneSoon() }
func (l loop) TookAway(id workload.ID)                        { delete(l.s.Given, id) }
func (l loop) EntryRestored(e *plan.Entry)                    { l.s.differ().Restored(e) }

func (l loop) Room() (*topology.Host, topology.KiB) {
	return l.s.Snapshot.Host, l.s.Settings.Policy.ReservedMemory
}

func (l loop) GaveValue(id workload.ID, kind plan.SettingKind, value string) {
	l.s.noteGiven(id, kind, value)
}

func (l loop) Had(kind plan.SettingKind, path string) (had, given topology.CPUSet, ok bool) {
	a, ok := l.s.runOf(kind, path)
	return a.Had, a.Placement.CPUs, ok
}

func (l loop) RestoredAffinity(e *plan.Entry) (ofRun bool) {
	s := l.s
	delete(s.Given, e.Workload)
	a, ok := s.runOf(e.Kind, e.Path)
	if ok {
		a.Had = topology.CPUSet{}
		s.Admissions[e.Workload] = a
		s.saveAdmissions()
		return true
	}
	a, ok = s.Admissions[e.Workload]
	if ok && e.Old == a.Placement.CPUs.String() { // back to what `homenode run` gave it
		s.Give(e.Workload, a.Placement.CPUs)
	}
	return false
}

func (l loop) Changed(request uint64, each []*work.Failure) {
	l.s.reply(Reply{ID: request, Changed: each})
}

func (l loop) Undone(request uint64, u *work.Undone) { l.s.reply(Reply{ID: request, Undo: u}) }

// result takes up how an effect ended.
func (s *State) result(r *Result) {
	switch {
	case s.TaskResult(r):
	case s.Searches.Result(s.upkeep(), r):
	case s.differ().Looked(r):
	case s.UndoResult(r):
	default:
		s.CheckResult(r)
	}
}

// upkeep returns what upkeep is about.
func (s *State) upkeep() *upkeep.Host {
	return &upkeep.Host{Scene: &s.Scene, Work: &s.Work, Loop: loop{s}}
}
