package switchback

import (
	"maps"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
)

// end restores what a trial has switched; it is over once that is done.
func (s *Trials) end(h *Host, why words.Reason) {
	t := s.Trial
	t.Ending = &why
	if why.Code != words.TrialLeft { // its program may come back
		s.TrialOver = &Over{t.Name, why}
	}
	h.Event(plan.Event{Kind: plan.EventDaemon}, words.TrialEnds, t.Name, why)
	if t.Arm != trial.On {
		s.to(h, trial.On)
	}
	s.save(h)
	s.Due(h)
}

// Due ends a trial that was not renewed, goes on with one, and forgets one that is over.
func (s *Trials) Due(h *Host) {
	t := s.Trial
	if t == nil {
		return
	}
	if t.Ending == nil {
		switch {
		case !h.Work.At.Before(t.Until):
			s.end(h, words.Because(words.TrialLeft))
			return
		case t.Until.Sub(h.Work.At) > MostLease: // the clock was set back
			t.Until = h.Work.At.Add(MostLease).Round(0)
			s.save(h)
		case !h.Enforce:
			s.end(h, words.Because(words.TrialObserves))
			return
		}
		if t.Arm != trial.On && len(t.Names) > 0 {
			before := len(t.Holds.IDs)
			s.hold(h) // what matches and has come since
			if len(t.Holds.IDs) != before {
				s.save(h)
			}
		}
	}
	if was := maps.Clone(t.Written); (h.Enforce || t.Ending != nil) && !h.Work.Stopping {
		s.setKernel(h)
		if !maps.Equal(t.Written, was) {
			s.save(h)
		}
	}
	if t.Ending != nil && len(t.Written) == 0 && !s.setsKernel(h) {
		s.Trial = nil
		s.save(h)
	}
}

// Overrule ends a trial where a person orders what it would undo, or has undone: the last word is the person's.
// what is the order in words.
func (s *Trials) Overrule(h *Host, what string) {
	if s.Trial == nil || s.Trial.Ending != nil || h.By == nil {
		return
	}
	s.end(h, words.Because(words.TrialOverruled, what))
}
