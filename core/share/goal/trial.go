package goal

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/words"
)

// Trial is a resource that is limited to test whether it is the cause.
type Trial struct {
	Resource Resource  `json:"resource,omitempty"`
	Began    time.Time `json:"began,omitzero"`
	Slack    float64   `json:"slack,omitempty"` // before
}

// tryNext limits one resource, to test whether it is the cause.
func (s *State) tryNext(in *Input, v *Verdict) words.Reason {
	for _, r := range Resources {
		since, tried := s.Cleared[r]
		switch {
		case !slices.Contains(in.Can, r) || s.Limits[r] != 0:
			continue
		case tried && in.At.Sub(since).Abs() < clearedFor:
			continue
		}
		s.Trial = Trial{Resource: r, Began: in.At, Slack: v.Slack}
		if s.Limits == nil {
			s.Limits = map[Resource]int{}
		}
		s.Limits[r] = limited
		if r == Siblings { // all or none
			return words.Because(words.GoalSiblings)
		}
		return words.Because(words.GoalTries, r.String(), limited)
	}
	return words.Reason{}
}

// tryOn waits for the effect of a limit, and judges it.
func (s *State) tryOn(in *Input, v *Verdict) words.Reason {
	t := s.Trial
	need := max(trialFor, 2*v.Window)
	if gone := in.At.Sub(t.Began); gone < need {
		return words.Because(words.GoalTrying, t.Resource.String(), need-gone)
	}
	gained := v.Slack - t.Slack
	s.Trial = Trial{}
	if gained >= helped {
		s.Ceiling = 0 // with that limit it may lie higher
		return words.Because(words.GoalHurts, t.Resource.String(), gained)
	}
	delete(s.Limits, t.Resource)
	s.clear(t.Resource, in.At)
	return words.Because(words.GoalHarmless, t.Resource.String(), clearedFor)
}

func (s *State) clear(r Resource, at time.Time) {
	if s.Cleared == nil {
		s.Cleared = map[Resource]time.Time{}
	}
	s.Cleared[r] = at
}

// endTrial removes a limit under trial, because what follows says nothing about the limit.
func (s *State) endTrial() {
	if s.Trial.Resource != "" {
		delete(s.Limits, s.Trial.Resource)
	}
	s.Trial = Trial{}
}
