package goal

import (
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Slack is the part of the limit that is left, below 0 when the goal is missed.
func (r *Reading) Slack() float64 { return slack(r.Most, r.Value) }

// odd reports whether the value is no number.
func (r *Reading) odd() bool { return math.IsNaN(r.Value) || math.IsInf(r.Value, 0) }

// slack is at most 1 and at least -mostMissed: a huge value counts as missed by far, not as infinite.
func slack(most, value float64) float64 {
	return min(1, max(-mostMissed, 1-value/most))
}

// Past is the memory of one goal.
type Past struct {
	Workload workload.ID `json:"workload"`
	As       string      `json:"as"`
	Metric   string      `json:"metric"`
	Most     float64     `json:"most"`
	Values   []float64   `json:"values,omitempty"` // newest last
	At       time.Time   `json:"at,omitzero"`      // of the newest value
	New      bool        `json:"new,omitempty"`    // that came with this scan
	Same     int         `json:"same,omitempty"`   // readings in a row with the same value
	From     time.Time   `json:"from,omitzero"`    // since when the value is the same
}

// meet adds the readings, and reports whether all of them belong to other workloads, metrics or limits than
// before. A goal that comes or goes next to another one takes no memory from it.
func (s *State) meet(in *Input) (others bool) {
	before := s.Goals
	s.Goals = make([]Past, 0, len(in.Goals))
	others = len(before) > 0
	for i := range in.Goals {
		r := &in.Goals[i]
		fresh := Past{Workload: r.Workload, As: r.As, Metric: r.Metric, Most: r.Most}
		k := slices.IndexFunc(before, func(m Past) bool {
			return m.Workload == r.Workload && m.Metric == r.Metric && m.As == r.As && m.Most == r.Most
		})
		if k >= 0 {
			fresh = before[k]
			others = false
		}
		fresh.take(r)
		s.Goals = append(s.Goals, fresh)
	}
	return others
}

// take adds a reading, if it is a new one. An earlier time than before is a clock that was set back.
func (m *Past) take(r *Reading) {
	m.New = r.Known && !r.odd() && !r.At.Equal(m.At)
	if !m.New {
		return
	}
	back := r.At.Before(m.At)
	if n := len(m.Values); n > 0 && m.Values[n-1] == r.Value && !back {
		m.Same++
	} else {
		m.Same, m.From = 0, r.At
	}
	m.At = r.At
	m.Values = append(slices.Clone(m.Values[max(0, len(m.Values)-kept+1):]), r.Value)
}

// judge returns a verdict on each goal.
func (s *State) judge(in *Input) []Verdict {
	out := make([]Verdict, len(in.Goals))
	for i := range in.Goals {
		m := &s.Goals[i]
		v := Verdict{Reading: in.Goals[i]}
		late := max(patience*v.Window, leastPatience)
		age := in.At.Sub(v.At)
		switch {
		case v.odd() || !(v.Most > 0):
			v.State, v.Why = Unread, words.Because(words.GoalUnread, "its value is no number")
		case !v.Known && v.Failed == "":
			v.State, v.Why = Waiting, words.Because(words.GoalWaits)
		case !v.Known:
			v.State, v.Why = Unread, words.Because(words.GoalUnread, v.Failed)
		case age > late && v.Failed != "":
			v.State, v.Why = Unread, words.Because(words.GoalUnread, v.Failed)
		case age > late || age < -late: // or the clock was set
			v.State, v.Why = Stale, words.Because(words.GoalStale, age)
		case !v.Steady && m.Same >= unchanged && v.At.Sub(m.From) >= unchangedFor:
			v.State, v.Why = Same, words.Because(words.GoalConstant, m.Same)
		default:
			v.Slack = v.Reading.Slack()
			switch {
			case v.Slack < 0:
				v.State = Missed
			case v.Slack < m.margin():
				v.State = Near
			default:
				v.State = Fine
			}
		}
		out[i] = v
	}
	return out
}

// margin returns the slack that is kept: three times the usual step from one value to the next.
func (m *Past) margin() float64 {
	n := len(m.Values)
	if n < 4 {
		return leastMargin
	}
	steps := make([]float64, n-1)
	for i := range steps {
		steps[i] = math.Abs(slack(m.Most, m.Values[i+1]) - slack(m.Most, m.Values[i]))
	}
	slices.Sort(steps)
	return min(max(leastMargin, 3*steps[len(steps)/2]), mostMargin)
}

// peak is the largest of the newest values, as slack: what a step forward is judged by.
func (m *Past) peak(n int) float64 {
	v := m.Values[max(0, len(m.Values)-n):]
	return slack(m.Most, slices.Max(v))
}

// falling reports whether the newest value is below the one before by more than noise.
func (m *Past) falling() bool {
	gain, _ := m.gained()
	return gain > m.margin()/3
}

// rising reports whether the newest value is above the one before by more than noise. What misses its limit by far
// varies by more.
func (m *Past) rising() bool {
	gain, was := m.gained()
	return gain < -max(m.margin()/3, -was/10)
}

// gained returns how much more slack a value that came with this scan leaves than the one before, and the slack
// that this one left.
func (m *Past) gained() (gain, was float64) {
	n := len(m.Values)
	if n < 2 || !m.New {
		return 0, 0
	}
	was = slack(m.Most, m.Values[n-2])
	return slack(m.Most, m.Values[n-1]) - was, was
}
