package goal

import (
	"cmp"
	"math"

	"github.com/homenode/homenode/core/words"
)

// set changes the use.
func (s *State) set(in *Input, use float64) {
	use = math.Round(min(max(use, leastUse), most)*1e4) / 1e4
	if use == s.Use {
		return
	}
	if use < s.Use {
		s.Fell = in.At
	}
	s.Use, s.Changed = use, in.At
	s.Well = 0
	s.Low, s.LowFrom = 1, in.At
}

// floor returns the use at which batch work has its minimum.
func (s *State) floor(in *Input) float64 {
	if in.Pool <= 0 {
		return leastUse
	}
	return min(max(leastUse, (in.Busy-in.Batch+in.Least)/in.Pool), most)
}

// busy returns the current use.
func (in *Input) busy() float64 {
	if in.Pool <= 0 {
		return 0
	}
	return in.Busy / in.Pool
}

// step moves the use by the slack of the worst goal.
func (s *State) step(in *Input, out *Outcome) words.Reason {
	v := &out.Goals[out.Worst]
	m := &s.Goals[out.Worst]
	if s.Low = min(s.Low, v.Slack); v.State == Missed || in.At.Sub(s.Fell) < v.Window {
		s.Low, s.LowFrom = 1, in.At // what was measured before the last step back is no evidence against more
	}
	if v.State == Missed {
		if s.Misses > 0 && !s.newMiss(out) {
			return words.Because(words.GoalNext)
		}
		return s.back(in, v, m)
	}
	s.Misses = 0
	s.Held = min(s.Use, max(in.busy(), leastUse))
	if !s.Trial.Began.IsZero() {
		return s.tryOn(in, v)
	}
	if v.State == Near {
		s.Well = 0
		if in.At.Sub(s.Changed) >= leastHold { // cores alone bring no more
			if next := s.tryNext(in, v); !next.None() {
				return next
			}
		}
		return words.Because(words.GoalNear, v.Slack, m.margin())
	}
	s.Well++
	return s.forward(in, v, m)
}

// newMiss reports whether a value that misses its goal came with this scan. A scan that something calls for meanwhile
// sees the same value again, which is no second miss.
func (s *State) newMiss(out *Outcome) bool {
	for i := range out.Goals {
		if out.Goals[i].State == Missed && s.Goals[i].New {
			return true
		}
	}
	return false
}

// back lowers the use because a goal was missed.
func (s *State) back(in *Input, v *Verdict, m *Past) words.Reason {
	s.Well = 0
	s.endTrial()
	floor := s.floor(in)
	if s.Use <= floor+leastStep/2 { // without batch work a missed goal is no evidence against more of it
		return words.Because(words.GoalLeast, string(v.Workload))
	}
	now := min(s.Use, max(in.busy(), floor))
	begins := !s.Begun.IsZero() && s.Changed.Equal(s.Begun)
	if s.Misses > 0 || begins {
		if wait := s.wait(in, v, m); !wait.None() {
			return wait
		}
	}
	if s.Misses == 0 {
		now = min(s.Use, max(now, s.Held)) // batch work may have lost CPUs since the value was measured
		if !s.Missed.IsZero() && in.At.Sub(s.Missed) < often {
			s.Hold = min(2*s.Hold, mostHold)
		}
		s.Hold, s.Missed = max(s.Hold, leastHold), in.At
	}
	s.Misses++
	ceiling := cmp.Or(s.Ceiling, s.Use)
	batch := in.Batch / max(in.Pool, 1)
	var use float64
	switch s.Misses {
	case 1:
		use = now - min(backStep-v.Slack*backPart, mostBack)
		s.Ceiling = max(floor, use)
	case 2:
		use = now - max(backStep, batch/2)
		s.Ceiling = max(floor, ceiling-backStep)
	default:
		use, s.Ceiling = floor, ceiling
	}
	if s.blame(in, v) { // the miss is of a higher load, which is over
		s.Ceiling = ceiling
	} else {
		s.cap()
	}
	before := s.Use
	s.set(in, min(max(use, floor), s.Use))
	return words.Because(words.GoalBack, before, s.Use)
}

// wait returns why a value that misses its goal does not call for another step: it was measured, in part, before the
// last one.
func (s *State) wait(in *Input, v *Verdict, m *Past) words.Reason {
	age := in.At.Sub(s.Changed)
	rest := min(v.Window, mostOld) - age
	switch {
	case m.falling() && age < v.Window:
		return words.Because(words.GoalFalls)
	case !m.rising() && rest > 0:
		return words.Because(words.GoalOld, rest)
	}
	return words.Reason{}
}

// forward raises the use by a step.
func (s *State) forward(in *Input, v *Verdict, m *Past) words.Reason {
	rest := max(settle, v.Window) - in.At.Sub(s.Fell)
	size := min(max(leastStep, (m.peak(wellScans)-m.margin())/6), mostStep)
	from := max(s.Use, min(s.floor(in), in.busy())) // online work alone uses this much
	to := from + size
	switch known := float64(s.Hours[in.Hour]) / 100; {
	case s.Ceiling > 0 && s.Use < s.Ceiling-mostStep, // back to where it was before a spike
		s.Ceiling == 0 && s.Use < known: // it held at this hour before
		to = from + 3*size
	}
	to = max(to, s.Use)
	switch {
	case s.Use >= most:
		return words.Because(words.GoalFull, most)
	case !s.Fell.IsZero() && rest > 0:
		return words.Because(words.GoalRests, rest)
	case s.Well < wellScans:
		return words.Because(words.GoalSlack, v.Slack, s.Use, min(to, most))
	case in.At.Sub(s.Changed) < v.Window && !s.Changed.IsZero():
		return words.Because(words.GoalWindow, v.Window-in.At.Sub(s.Changed))
	case s.unused(in):
		return words.Because(words.GoalUnused, in.busy(), s.Use)
	case m.peak(5) < m.margin():
		return words.Because(words.GoalNear, m.peak(5), m.margin())
	}
	if s.Ceiling > 0 && to > s.Ceiling {
		if s.Use < s.Ceiling-leastStep/2 {
			to = s.Ceiling
		} else if refused := s.raise(in, m); !refused.None() {
			return refused
		} else {
			to = s.Ceiling
		}
	}
	before := s.Use
	s.set(in, to)
	return words.Because(words.GoalForward, before, s.Use)
}

// unused reports whether batch work leaves what it may use. Below one CPU this is unknown while some batch work runs:
// it may be unable to use so little, next to an online-strict service for instance, and would never get more.
func (s *State) unused(in *Input) bool {
	may := s.Use*in.Pool - (in.Busy - in.Batch)
	if may < 1 && in.Batch > 0 {
		return false
	}
	return in.busy() < s.Use-0.1 || in.Batch < 0.5*may
}

// raise raises the ceiling when the least slack of a whole hold, with all bursts in it, is above the margin.
func (s *State) raise(in *Input, m *Past) words.Reason {
	if wait := s.Hold - in.At.Sub(s.LowFrom); wait > 0 {
		return words.Because(words.GoalCeiling, s.Ceiling, wait)
	}
	spare := s.Low - m.margin()/3 // the least of a hold has the noise in it already
	if spare < 0 {
		s.Low, s.LowFrom = 1, in.At
		return words.Because(words.GoalCeiling, s.Ceiling, s.Hold)
	}
	if s.Raised.After(s.Fell) { // the last one held
		s.Hold = max(s.Hold/2, leastHold)
	}
	s.Ceiling = min(most, s.Ceiling+min(max(leastStep, spare/3), mostRaise))
	s.Raised = in.At
	return words.Reason{}
}
