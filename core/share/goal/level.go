package goal

import (
	"cmp"
	"math"
	"time"

	"github.com/homenode/homenode/core/words"
)

// Level is the memory of one level of online load. At a high load less use holds than at a low one: a spike must not
// bring down the use between spikes.
type Level struct {
	Use     float64       `json:"use,omitempty"`     // newest; 0 before the first scan there
	Ceiling float64       `json:"ceiling,omitempty"` // 0 before the first miss
	Hold    time.Duration `json:"hold,omitempty"`
	Raised  time.Time     `json:"raised,omitzero"`
	Last    time.Time     `json:"last,omitzero"` // newest scan there
}

const (
	levels = 10 // each a tenth of the pool
	// sticky is how far, in parts of the pool, the load may leave a level without entering another one.
	sticky = 0.03
)

// levelOf returns the level of a load, a part of the pool; was is the level before, which the load leaves only by
// more than sticky.
func levelOf(load float64, was int, known bool) int {
	now := min(max(0, int(load*levels)), levels-1)
	low, high := float64(was)/levels, float64(was+1)/levels
	if known && load >= low-sticky && load < high+sticky {
		return was
	}
	return now
}

// enter follows the online load from level to level, each with its use and its ceiling. The reason is none unless the
// use changes.
func (s *State) enter(in *Input, out *Outcome) (why words.Reason) {
	load := 0.0
	if in.Pool > 0 {
		load = (in.Busy - in.Batch) / in.Pool
	}
	known := len(s.Levels) == levels
	if !known {
		s.Levels = make([]Level, levels)
	}
	was := s.Level
	now := levelOf(load, was, known)
	if known && now != was {
		old := &s.Levels[was]
		old.Use, old.Ceiling = s.Use, s.Ceiling
		old.Hold, old.Raised = s.Hold, s.Raised
		before := s.Use
		s.change(in, out, &s.Levels[now], now < was)
		if s.Use != before {
			why = words.Because(words.GoalLevel, load, before, s.Use)
		}
	}
	s.Level = now
	s.Levels[now].Last = in.At
	return why
}

// change continues with the memory of another level. Use and ceiling stay where there is none.
func (s *State) change(in *Input, out *Outcome, l *Level, lower bool) {
	s.Low, s.LowFrom = 1, in.At
	if l.Use == 0 {
		return
	}
	use := min(s.Use, l.Use)
	if lower && s.Misses == 0 && out.Worst >= 0 && out.Goals[out.Worst].State != Missed {
		use = max(s.Use, l.Use)
	}
	s.Ceiling, s.Raised = l.Ceiling, l.Raised
	s.Hold = max(l.Hold, leastHold)
	if s.Ceiling > 0 {
		use = min(use, s.Ceiling)
	}
	use = math.Round(min(max(use, leastUse), most)*1e4) / 1e4
	s.Use = use // no step: Fell and Changed stay
}

// blame reports whether the load was higher within the window of the metric than it is now: the miss may be of that
// time. The ceiling of that level falls.
func (s *State) blame(in *Input, v *Verdict) bool {
	for k := levels - 1; k > s.Level; k-- {
		l := &s.Levels[k]
		online := float64(k) / levels
		if in.At.Sub(l.Last) > v.Window || l.Use <= online+backStep { // batch work had next to nothing there
			continue
		}
		l.Ceiling = max(leastUse, min(cmp.Or(l.Ceiling, l.Use), l.Use)-backStep)
		l.Use = min(l.Use, l.Ceiling)
		return true
	}
	return false
}

// cap lowers the ceilings of all higher levels to that of the current one: at a higher load no more use holds.
func (s *State) cap() {
	for k := s.Level + 1; k < levels; k++ {
		l := &s.Levels[k]
		if l.Use > 0 && (l.Ceiling == 0 || l.Ceiling > s.Ceiling) {
			l.Ceiling = s.Ceiling
		}
	}
}
