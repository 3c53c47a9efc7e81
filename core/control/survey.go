package control

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// every is the time between two surveys of a kind. Managers: each reads the name of
// every process, 10 µs apiece, so that 3,000 processes cost 0.1 % of a CPU. Links change
// when workloads start. Interrupts: 300 take some 5 ms, and what is set stays until a
// driver is loaded or a CPU comes or goes.
var every = map[SurveyKind]time.Duration{Managers: 30 * time.Second, Links: 30 * time.Second,
	Interrupts: 10 * time.Second, Isolation: 10 * time.Second}

// surveyDue asks for the surveys that are due.
func (s *State) surveyDue() {
	for _, kind := range s.Settings.Surveys {
		if !s.surveyWanted(kind) {
			continue
		}
		if at, ok := s.Surveyed[kind]; !ok || s.Began.Sub(at) >= every[kind] || at.After(s.Began) {
			s.Surveyed[kind] = s.Began
			s.note(Effect{Kind: EffectSurvey, Survey: kind})
		}
	}
}

// surveyAgain has the next scan ask for a survey, however lately there was one.
func (s *State) surveyAgain(kind SurveyKind) { delete(s.Surveyed, kind) }

// survey takes up what a survey found. The first of managers and of links is waited for
// before anything is changed: then what the scan led to is decided once more.
func (s *State) survey(in *Survey) {
	first := !s.Known[in.Kind]
	s.Known[in.Kind] = true
	key := "survey " + string(in.Kind)
	switch {
	case in.Failed != "":
		s.once(key, plan.Event{Kind: plan.EventHost, Error: true}, words.SurveyFailed, string(in.Kind), in.Failed)
	default:
		s.Over(key)
		if in.Lacks == "" {
			s.Over(key + " lacks")
		} else {
			s.once(key+" lacks", plan.Event{Kind: plan.EventHost, Error: true}, words.SurveyLacks, string(in.Kind),
				in.Lacks)
		}
		switch in.Kind {
		case Managers:
			s.ManagersChanged(s.history(), s.Managers, in.Managers)
			s.SetManagers(in.Managers)
		case Links:
			s.Linked(in.Links, in.Read)
			s.Scene.Follow(s.basis(), s.Placements())
		default:
			s.surveyConcerns(in)
		}
	}
	if first && needed(in.Kind) && s.Seen > 0 {
		s.decide()
	}
}

// needed reports whether nothing is changed before the first survey of a kind: it decides what may be touched.
func needed(kind SurveyKind) bool { return kind == Managers || kind == Links }

// surveyed reports whether what decides who may be touched is known.
func (s *State) surveyed() bool {
	return !slices.ContainsFunc(s.Settings.Surveys, func(k SurveyKind) bool { return needed(k) && !s.Known[k] })
}
