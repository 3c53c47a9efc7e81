package goal

import (
	"reflect"
	"testing"
	"time"

	"github.com/homenode/homenode/core/words"
)

// full is a scan of 100 CPUs: online work keeps 20 busy, and batch work the rest up to a use.
func full(use float64) *Input {
	return &Input{At: start, Hour: 5, Target: 0.65, Pool: 100, Busy: 100 * use, Batch: 100*use - 20, Least: 1}
}

// TestSet: a use within bounds, to four digits; less use is remembered as a fall.
func TestSet(t *testing.T) {
	for _, c := range []struct {
		was, to, want float64
		changed, fell bool
	}{
		{0.5, 0.6, 0.6, true, false}, {0.5, 0.4, 0.4, true, true}, {0.5, 0.5, 0.5, false, false},
		{0.5, 0.50004, 0.5, false, false}, {0.5, 2, most, true, false}, {0.5, -1, leastUse, true, true},
	} {
		s := State{Use: c.was, Well: 3, Low: 0.2}
		s.set(&Input{At: start}, c.to)
		changed, fell := s.Changed.Equal(start), s.Fell.Equal(start)
		if s.Use != c.want || changed != c.changed || fell != c.fell {
			t.Errorf("from %v to %v: %+v", c.was, c.to, s)
		}
		fresh := s.Well == 0 && s.Low == 1 && s.LowFrom.Equal(start)
		if fresh != c.changed {
			t.Errorf("from %v to %v: slack is watched anew: %v", c.was, c.to, fresh)
		}
	}
}

// TestFloor: what online work uses, and the least of batch work.
func TestFloor(t *testing.T) {
	for _, c := range []struct {
		pool, busy, batch, least, floor, use float64
	}{
		{100, 60, 40, 1, 0.21, 0.6}, {0, 60, 40, 1, leastUse, 0}, {100, 40, 40, 0, leastUse, 0.4},
		{100, 100, 0, 1, most, 1}, {1, 0.6, 0.4, 0.01, 0.21, 0.6}, {0.5, 0.25, 0.25, 0.25, 0.5, 0.5},
	} {
		in := Input{Pool: c.pool, Busy: c.busy, Batch: c.batch, Least: c.least}
		if got := new(State).floor(&in); !near(got, c.floor) {
			t.Errorf("%+v: floor %v", c, got)
		}
		if got := in.busy(); !near(got, c.use) {
			t.Errorf("%+v: busy %v", c, got)
		}
	}
}

// missed is a goal that a state misses by a part of its limit.
func missed(by float64) (*Verdict, *Past) {
	r := Reading{Workload: "/x", Metric: "m", Most: 1, Window: 10 * time.Second}
	v := Verdict{Reading: r, Slack: -by, State: Missed}
	return &v, &Past{Most: 1, Values: []float64{1 + by}}
}

// TestBack: a miss lowers the use by what it was missed by, a second one batch work to half, and a third to its least.
func TestBack(t *testing.T) {
	for _, c := range []struct {
		name         string
		misses       int
		by           float64
		use, ceiling float64
	}{
		{"one", 0, 0.1, 0.8 - 0.05, 0.75},
		{"one, by far", 0, 9, 0.8 - mostBack, 0.6},
		{"two", 1, 0.1, 0.8 - 0.3, 0.68},
		{"three", 2, 0.1, 0.21, 0.7},
		{"nine", 8, 0.1, 0.21, 0.7},
	} {
		s := State{Use: 0.8, Ceiling: 0.7, Misses: c.misses, Well: 3, Levels: make([]Level, levels), Level: 2}
		s.Trial, s.Limits = Trial{Resource: Cache, Began: start}, map[Resource]int{Cache: limited}
		v, m := missed(c.by)
		why := s.back(full(0.8), v, m)
		if !near(s.Use, c.use) || !near(s.Ceiling, c.ceiling) || s.Misses != c.misses+1 || s.Well != 0 {
			t.Errorf("%s: %+v", c.name, s)
		}
		if !why.Equal(words.Because(words.GoalBack, 0.8, s.Use)) || s.Trial.Resource != "" || len(s.Limits) > 0 {
			t.Errorf("%s: why %v, %+v", c.name, why, s.Trial)
		}
		if first := s.Missed.Equal(start); first != (c.misses == 0) {
			t.Errorf("%s: missed at %v", c.name, s.Missed)
		}
	}
	v, m := missed(0.1)
	for misses := range 3 {
		before := State{Use: 0.21, Ceiling: 0.5, Hold: 2 * leastHold, Missed: start.Add(-leastHold), Misses: misses,
			Levels: make([]Level, levels), Level: 2}
		s := before.copied()
		s.Trial, s.Limits = Trial{Resource: Cache, Began: start}, map[Resource]int{Cache: limited}
		before.Limits = map[Resource]int{}
		if why := s.back(full(0.21), v, m); why.Code != words.GoalLeast || !reflect.DeepEqual(s, before) {
			t.Errorf("at the floor: %v, %+v", why, s)
		}
	}
	s := State{Use: 0.2149, Levels: make([]Level, levels), Level: 2}
	if why := s.back(full(0.2149), v, m); why.Code != words.GoalLeast || s.Ceiling != 0 {
		t.Errorf("nearly at the floor: %v, %+v", why, s)
	}
	s = State{Use: 0.5, Misses: 1, Levels: make([]Level, levels), Level: 2} // at a level where none was missed yet
	s.Levels[3] = Level{Use: 0.6, Ceiling: 0.55}
	if s.back(full(0.5), v, m); !near(s.Ceiling, 0.48) || !near(s.Levels[3].Ceiling, 0.48) {
		t.Errorf("a second miss without a ceiling: %+v", s)
	}
	s = State{Use: 0.22, Ceiling: 0.22, Levels: make([]Level, levels), Level: 2}
	if why := s.back(full(0.22), v, m); why.Code != words.GoalBack || s.Use != 0.21 || s.Ceiling != 0.21 {
		t.Errorf("to the floor, and no ceiling below it: %v, %+v", why, s)
	}
	s = State{Use: 0.9, Levels: make([]Level, levels), Level: 2} // batch work did not use what it had
	s.back(full(0.5), v, m)
	if !near(s.Use, 0.45) || !near(s.Ceiling, 0.45) {
		t.Errorf("from what was busy: %+v", s)
	}
	s = State{Use: 0.9, Held: 0.8, Levels: make([]Level, levels), Level: 2} // a spike took from batch work meanwhile
	s.back(full(0.5), v, m)
	if !near(s.Use, 0.75) || !near(s.Ceiling, 0.75) {
		t.Errorf("from what was busy when the goals held last: %+v", s)
	}
}

// TestOldWaits: a value that was measured before the last step back, in part, calls for no further step, unless it
// rises.
func TestOldWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		misses int
		values []float64
		window time.Duration
		since  time.Duration
		why    words.Code
	}{
		{"it falls", 1, []float64{2, 1.5}, 10 * time.Second, 10*time.Second - 1, words.GoalFalls},
		{"it falls, after the window", 1, []float64{2, 1.5}, 10 * time.Second, 10 * time.Second, words.GoalBack},
		{"it does not fall", 1, []float64{2, 2}, 10 * time.Second, time.Second, words.GoalOld},
		{"it does not fall, after the window", 1, []float64{2, 2}, 4 * time.Second, 4 * time.Second, words.GoalBack},
		{"it does not fall for long", 1, []float64{2, 2}, time.Minute, mostOld, words.GoalBack},
		{"it does not fall, long window", 1, []float64{2, 2}, 30 * time.Second, 29 * time.Second, words.GoalOld},
		{"missed by far, with noise", 1, []float64{10, 10.2}, 10 * time.Second, time.Second, words.GoalOld},
		{"missed by far, it rises", 1, []float64{10, 12}, 10 * time.Second, time.Second, words.GoalBack},
		{"it falls slowly", 1, []float64{2, 1.5}, time.Minute, mostOld, words.GoalFalls},
		{"it rises", 1, []float64{1.5, 2}, 10 * time.Second, time.Second, words.GoalBack},
		{"the first miss", 0, []float64{2, 1.5}, 10 * time.Second, time.Second, words.GoalBack},
		{"two misses", 2, []float64{2, 1.5}, 10 * time.Second, time.Second, words.GoalFalls},
	} {
		s := State{Use: 0.8, Misses: c.misses, Changed: start.Add(-c.since), Levels: make([]Level, levels)}
		v, m := missed(0.5)
		m.Values, m.New, v.Window = c.values, true, c.window
		why := s.back(full(0.8), v, m)
		if why.Code != c.why || (s.Misses == c.misses) != (c.why != words.GoalBack) {
			t.Errorf("%s: %v", c.name, why)
		}
	}
}

// TestOldRise: a scan that brings a value of another goal only shows no new rise of this one.
func TestOldRise(t *testing.T) {
	for _, c := range []struct {
		fresh bool
		why   words.Code
	}{{true, words.GoalBack}, {false, words.GoalOld}} {
		s := State{Use: 0.8, Misses: 1, Changed: start.Add(-time.Second), Levels: make([]Level, levels)}
		v, m := missed(0.5)
		m.Values, m.New = []float64{1.2, 1.5}, c.fresh
		if why := s.back(full(0.8), v, m); why.Code != c.why {
			t.Errorf("with a new value %v: %v", c.fresh, why)
		}
	}
}

// TestSlackAfterMiss: the slack that counts for a higher ceiling begins when all that is measured is from after the last
// step back.
func TestSlackAfterMiss(t *testing.T) {
	for _, c := range []struct {
		since time.Duration
		low   float64
		from  time.Time
	}{
		{10*time.Second - 1, 1, start}, {10 * time.Second, 0.01, start.Add(-time.Minute)},
	} {
		held, m := missed(0)
		held.Slack, held.State = 0.01, Near
		s := State{Use: 0.5, Low: 0.2, LowFrom: start.Add(-time.Minute), Fell: start.Add(-c.since), Changed: start,
			Goals: []Past{*m}, Levels: make([]Level, levels)}
		s.step(full(0.5), &Outcome{Goals: []Verdict{*held}})
		if s.Low != c.low || !s.LowFrom.Equal(c.from) {
			t.Errorf("%v after the step: least slack %v since %v", c.since, s.Low, s.LowFrom)
		}
	}
}

// TestHold: slack is watched for longer where misses come often.
func TestHold(t *testing.T) {
	for _, c := range []struct {
		hold, since, want time.Duration
		before            bool
	}{
		{0, 0, leastHold, false}, {5 * time.Minute, 0, 5 * time.Minute, false},
		{5 * time.Minute, often, 5 * time.Minute, true}, {5 * time.Minute, often - 1, 10 * time.Minute, true},
		{9 * time.Minute, time.Minute, mostHold, true}, {0, time.Minute, leastHold, true},
	} {
		s := State{Use: 0.8, Hold: c.hold, Levels: make([]Level, levels)}
		if c.before {
			s.Missed = start.Add(-c.since)
		}
		v, m := missed(0.1)
		s.back(full(0.8), v, m)
		if s.Hold != c.want {
			t.Errorf("%+v: %s", c, s.Hold)
		}
	}
}

// TestStep: which way a scan goes, by the state of the worst goal.
func TestStep(t *testing.T) {
	s := State{Use: 0.8, Low: 1, Misses: 1, Levels: make([]Level, levels)}
	s.Goals = []Past{{Most: 1, Values: []float64{1.1}}}
	v, _ := missed(0.1)
	out := &Outcome{Goals: []Verdict{*v}}
	if why := s.step(full(0.8), out); why.Code != words.GoalNext || s.Use != 0.8 || s.Low != 1 || s.LowFrom != start {
		t.Errorf("the same miss seen again: %v, %+v", why, s)
	}
	s.Goals[0].New = true
	if why := s.step(full(0.8), out); why.Code != words.GoalBack || s.Misses != 2 {
		t.Errorf("a second miss: %v, %+v", why, s)
	}
	s.Misses, s.Goals[0].New = 0, false
	if s.step(full(0.8), out); s.Misses != 1 {
		t.Errorf("a first miss of an earlier value: %+v", s)
	}
	held := Verdict{Reading: v.Reading, Slack: 0.05, State: Near}
	out = &Outcome{Goals: []Verdict{held}}
	s = State{Use: 0.8, Low: 0.02, Misses: 3, Well: 4, Changed: start.Add(-leastHold + 1), Goals: s.Goals}
	in := full(0.7)
	in.Can = []Resource{Cache, Bandwidth}
	if why := s.step(in, out); why.Code != words.GoalNear || s.Misses != 0 || s.Well != 0 || s.Low != 0.02 {
		t.Errorf("near: %v, %+v", why, s)
	}
	if !near(s.Held, 0.7) {
		t.Errorf("held at %v", s.Held)
	}
	s.Changed = start.Add(-leastHold)
	if why := s.step(in, out); why.Code != words.GoalTries || s.Trial.Resource != Cache {
		t.Errorf("near for a while: %v, %+v", why, s.Trial)
	}
	if why := s.step(in, out); why.Code != words.GoalTrying {
		t.Errorf("under trial: %v", why)
	}
	s = State{Use: 0.8, Goals: []Past{{Most: 1, Values: []float64{0.5}}}}
	out.Goals[0].State, out.Goals[0].Slack = Fine, 0.5
	if why := s.step(full(0.8), out); why.Code != words.GoalSlack || s.Well != 1 {
		t.Errorf("slack: %v, %+v", why, s)
	}
}

// forwardState is a state with slack that may take a step forward, and its goal.
func forwardState() (State, *Verdict, *Past) {
	s := State{Use: 0.6, Well: wellScans, Hold: leastHold, Low: 0.5, LowFrom: start.Add(-time.Hour)}
	v := Verdict{Reading: Reading{Workload: "/x", Most: 1, Window: 10 * time.Second}, Slack: 0.3, State: Fine}
	return s, &v, &Past{Most: 1, Values: []float64{0.7, 0.7, 0.7, 0.7, 0.7}} // margin 0.08
}

// TestForward: a step by the slack, and what it waits for.
func TestForward(t *testing.T) {
	const step = (0.3 - leastMargin) / 6
	for _, c := range []struct {
		name   string
		change func(*State, *Past, *Input)
		code   words.Code
		use    float64
	}{
		{"a step", func(*State, *Past, *Input) {}, words.GoalForward, 0.6 + step},
		{"a small one", func(_ *State, m *Past, _ *Input) { m.Values[4] = 0.9 }, words.GoalForward, 0.6 + leastStep},
		{"a large one", func(_ *State, m *Past, _ *Input) { m.Values = []float64{0.1} }, words.GoalForward, 0.6 + mostStep},
		{"full", func(s *State, _ *Past, _ *Input) { s.Use = most }, words.GoalFull, most},
		{"it fell just now", func(s *State, _ *Past, _ *Input) { s.Fell = start.Add(-settle + 1) }, words.GoalRests, 0.6},
		{"it fell a while ago", func(s *State, _ *Past, _ *Input) {
			s.Fell = start.Add(-settle)
		}, words.GoalForward, 0.6 + step},
		{"one scan", func(s *State, _ *Past, _ *Input) { s.Well = wellScans - 1 }, words.GoalSlack, 0.6},
		{"within the window", func(s *State, _ *Past, _ *Input) {
			s.Changed = start.Add(-10*time.Second + 1)
		}, words.GoalWindow, 0.6},
		{"after the window", func(s *State, _ *Past, _ *Input) {
			s.Changed = start.Add(-10 * time.Second)
		}, words.GoalForward, 0.6 + step},
		{"busy less", func(_ *State, _ *Past, in *Input) { *in = *full(0.49) }, words.GoalUnused, 0.6},
		{"batch work has little", func(_ *State, _ *Past, in *Input) { in.Busy, in.Batch = 52, 3 }, words.GoalUnused, 0.6},
		{"a peak in five scans", func(_ *State, m *Past, _ *Input) { m.Values[0] = 0.99 }, words.GoalNear, 0.6},
		{"a peak before", func(_ *State, m *Past, _ *Input) {
			m.Values = append([]float64{0.99}, m.Values...)
		}, words.GoalForward, 0.6 + step},
		{"back to before a spike", func(s *State, _ *Past, _ *Input) { s.Ceiling = 0.8 }, words.GoalForward, 0.6 + 3*step},
		{"it held at this hour", func(s *State, _ *Past, _ *Input) {
			s.Hours = map[int]int{5: 90}
		}, words.GoalForward, 0.6 + 3*step},
		{"less held at this hour", func(s *State, _ *Past, _ *Input) {
			s.Hours = map[int]int{5: 60}
		}, words.GoalForward, 0.6 + step},
		{"a ceiling, and this hour", func(s *State, _ *Past, _ *Input) {
			s.Ceiling, s.Hours = 0.64, map[int]int{5: 90}
		}, words.GoalForward, 0.6 + step},
		{"up to the ceiling", func(s *State, _ *Past, _ *Input) { s.Ceiling = 0.62 }, words.GoalForward, 0.62},
		{"the ceiling rises", func(s *State, _ *Past, _ *Input) { s.Ceiling = 0.603 }, words.GoalForward, 0.603 + mostRaise},
		{"the ceiling stays", func(s *State, _ *Past, _ *Input) {
			s.Ceiling, s.LowFrom = 0.603, start
		}, words.GoalCeiling, 0.6},
		{"online work alone uses more", func(_ *State, _ *Past, in *Input) {
			in.Busy, in.Batch = 70, 45
			in.Least = 60
		}, words.GoalForward, 0.7 + step},
	} {
		s, v, m := forwardState()
		in := full(0.6)
		c.change(&s, m, in)
		why := s.forward(in, v, m)
		if diff := s.Use - c.use; why.Code != c.code || diff > 1e-4 || diff < -1e-4 {
			t.Errorf("%s: use %v, want %v; %v", c.name, s.Use, c.use, why)
		}
	}
	s, v, m := forwardState()
	s.Changed = start.Add(-3 * time.Second)
	if why := s.forward(full(0.6), v, m); !why.Equal(words.Because(words.GoalWindow, 7*time.Second)) {
		t.Errorf("within the window: %v", why)
	}
	s.Changed, m.Values[0] = time.Time{}, 0.99
	if why := s.forward(full(0.6), v, m); !why.Equal(words.Because(words.GoalNear, 1-0.99, m.margin())) {
		t.Errorf("a peak: %v", why)
	}
}

// TestRaise: the ceiling rises by the least slack of a whole hold; the hold gets shorter where the last one held.
func TestRaise(t *testing.T) {
	margin := leastMargin / 3
	for _, c := range []struct {
		name         string
		change       func(*State)
		code         words.Code
		ceiling, low float64
		hold         time.Duration
	}{
		{"a whole hold", func(*State) {}, "", 0.6 + (0.16-margin)/3, 0.16, 4 * time.Minute},
		{"not yet", func(s *State) {
			s.LowFrom = start.Add(-4*time.Minute + 1)
		}, words.GoalCeiling, 0.6, 0.16, 4 * time.Minute},
		{"just", func(s *State) {
			s.LowFrom = start.Add(-4 * time.Minute)
		}, "", 0.6 + (0.16-margin)/3, 0.16, 4 * time.Minute},
		{"no slack", func(s *State) { s.Low = margin - 0.001 }, words.GoalCeiling, 0.6, 1, 4 * time.Minute},
		{"little slack", func(s *State) { s.Low = margin + 0.003 }, "", 0.6 + leastStep, margin + 0.003, 4 * time.Minute},
		{"much slack", func(s *State) { s.Low = 0.9 }, "", 0.6 + mostRaise, 0.9, 4 * time.Minute},
		{"at the top", func(s *State) { s.Ceiling = most - 0.001 }, "", most, 0.16, 4 * time.Minute},
		{"the last one held", func(s *State) { s.Raised = start.Add(-1) }, "", 0.6 + (0.16-margin)/3, 0.16, 2 * time.Minute},
		{"the last one held, at the least", func(s *State) {
			s.Raised, s.Hold = start.Add(-1), leastHold
		}, "", 0.6 + (0.16-margin)/3, 0.16, leastHold},
		{"it fell since", func(s *State) {
			s.Raised, s.Fell = start.Add(-2), start.Add(-1)
		}, "", 0.6 + (0.16-margin)/3, 0.16, 4 * time.Minute},
	} {
		s := State{Use: 0.6, Ceiling: 0.6, Hold: 4 * time.Minute, Low: 0.16, LowFrom: start.Add(-time.Hour)}
		c.change(&s)
		why := s.raise(&Input{At: start}, &Past{Most: 1})
		if why.Code != c.code || !near(s.Ceiling, c.ceiling) || !near(s.Low, c.low) || s.Hold != c.hold {
			t.Errorf("%s: %v, %+v", c.name, why, s)
		}
		if (c.code == "") != s.Raised.Equal(start) {
			t.Errorf("%s: raised at %v", c.name, s.Raised)
		}
	}
}
