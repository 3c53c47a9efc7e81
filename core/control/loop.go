package control

import (
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/differ"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// This page is how concerns, the differ and the rest of control meet.

// differ returns what makes steps and restores of what the concerns desire.
func (s *State) differ() *differ.Differ {
	return &differ.Differ{Work: &s.Work, Concerns: s.concerns, Scene: s.scene, Scan: s.Seen}
}

// stepEnded has concerns and trials take up how a step went; nil is success.
func (s *State) stepEnded(step *plan.Step, f *Failure) {
	s.differ().StepEnded(step, f)
	s.Trials.StepEnded(s.trials(), step.Workload, step.To, f)
}

// scene returns the host as concerns see it. between is true where no scan has just ended.
func (s *State) scene(between bool) *concern.Scene {
	return &concern.Scene{
		At:       s.At,
		Began:    s.Began,
		Snapshot: &s.Snapshot,
		Subjects: s.Subjects,
		Plan:     &s.Plan,
		Policy:   &s.Facts.Policy,
		Facts:    &s.Facts,
		Claims:   s.Claims,
		Journal:  &s.Journal,
		Enforce:  s.Settings.Enforce,
		Acts:     s.acts(),
		Stopping: s.Stopping,
		Between:  between,
		Loop:     loop{s},
	}
}

// loop implements concern.Loop.
type loop struct{ s *State }

func (l loop) Observation(id workload.ID) *workload.Observation { return l.s.Observation(id) }
func (l loop) Observed(id workload.ID) []workload.ID            { return l.s.Observed(id) }
func (l loop) Start(o *workload.Observation) uint64             { return scene.StartOf(o) }
func (l loop) Homes() []workload.Placement                      { return l.s.Placements() }
func (l loop) Held(id workload.ID) bool                         { return l.s.Holds.Has(id) }
func (l loop) AllHeld() bool                                    { return l.s.Holds.All }
func (l loop) Busy(id workload.ID) bool                         { return l.s.Tasks[id] != nil }
func (l loop) Undoes(id workload.ID) bool                       { return l.s.Undoes(id) }
func (l loop) Halted() words.Reason                             { return l.s.Halted }
func (l loop) RetryOf(key work.Key) work.Retry                  { return l.s.Retries[key] }
func (l loop) Later(at time.Time) bool                          { return l.s.Later(at) }
func (l loop) Again(key work.Key) bool                          { return l.s.Again(key) }
func (l loop) Over(key string)                                  { l.s.Over(key) }
func (l loop) Save(key string, value any)                       { l.s.save(key, value) }
func (l loop) Ask(e work.Effect) uint64                         { return l.s.Effect(e) }
func (l loop) SurveyAgain(kind work.SurveyKind)                 { l.s.surveyAgain(kind) }
func (l loop) Asked() uint64                                    { return l.s.Effects }

func (l loop) OwnCgroup(o *workload.Observation) string { return l.s.OwnCgroup(o) }

func (l loop) Changing(id workload.ID) bool { return l.s.Work.Changing(id) }

func (l loop) LeftAlone(o *workload.Observation, names []string) words.Reason {
	return l.s.leave(o, names)
}

func (l loop) Redefines(whole workload.ID) bool {
	for id, t := range l.s.Tasks {
		if id.Is(whole) && (t.Request != 0 || t.Step().Kind == plan.SetNext) {
			return true
		}
	}
	return l.s.Work.Changing(whole)
}

func (l loop) Settled(id workload.ID) bool { return !l.s.Work.Changing(id) && l.s.Fresh(id) }

func (l loop) Retries(f func(work.Key, work.Retry)) {
	for key, r := range l.s.Retries {
		f(key, r)
	}
}

func (l loop) Event(e plan.Event, code words.Code, args ...any) { l.s.event(e, code, args...) }

func (l loop) Order(id workload.ID, code words.Code, args ...any) { l.s.order(id, code, args...) }

func (l loop) Once(key string, e plan.Event, code words.Code, args ...any) {
	l.s.once(key, e, code, args...)
}

func (l loop) Reply(id uint64, f *work.Failure, answer any) {
	r := Reply{ID: id, Failed: f}
	answered(&r, answer)
	l.s.reply(r)
}

func (l loop) Adopt(id workload.ID, kind plan.SettingKind, path, value string) {
	s := l.s
	if e := s.Journal.Of(kind, path); e != nil {
		s.Mark(e, plan.Applied)
		return
	}
	s.Seq++
	s.Put(plan.Entry{Seq: s.Seq, Time: s.At.Round(0), Workload: id, Kind: kind, Path: path, New: value,
		State: plan.Applied})
}
