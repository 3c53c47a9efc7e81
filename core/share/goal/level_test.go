package goal

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/words"
)

// TestLevelOf: a level is a tenth of the pool, which the load leaves only by more than a little.
func TestLevelOf(t *testing.T) {
	for _, c := range []struct {
		load  float64
		was   int
		known bool
		want  int
	}{
		{0.05, 0, false, 0}, {0.35, 0, false, 3}, {0.99, 0, false, 9}, {1.5, 0, false, 9}, {-0.2, 0, false, 0},
		{0.42, 3, true, 3}, {0.44, 3, true, 4}, {0.28, 3, true, 3}, {0.26, 3, true, 2}, {0.42, 3, false, 4},
		{0.9, 3, true, 9}, {0.01, 3, true, 0}, {0.35, 3, true, 3},
	} {
		if got := levelOf(c.load, c.was, c.known); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// at is a scan with an online load.
func at(load float64) *Input { return &Input{At: start, Pool: 10, Busy: 10*load + 3, Batch: 3} }

// TestEnters: each level of load has its own use and ceiling.
func TestEnters(t *testing.T) {
	var s State
	s.Use = 0.6
	out := &Outcome{Worst: -1}
	if why := s.enter(at(0.35), out); !why.None() || s.Level != 3 || len(s.Levels) != levels || s.Use != 0.6 {
		t.Errorf("first scan: %v, %+v", why, s)
	}
	if !s.Levels[3].Last.Equal(start) {
		t.Errorf("%+v", s.Levels[3])
	}
	s.Ceiling, s.Hold, s.Raised = 0.8, 2*time.Minute, start
	s.Levels[7] = Level{Use: 0.5, Ceiling: 0.55, Hold: 3 * time.Minute, Raised: start.Add(1)}
	why := s.enter(at(0.75), out)
	if !why.Equal(words.Because(words.GoalLevel, 0.75, 0.6, 0.5)) || s.Use != 0.5 || s.Ceiling != 0.55 {
		t.Errorf("a higher load: %v, %+v", why, s)
	}
	if l := s.Levels[3]; l.Use != 0.6 || l.Ceiling != 0.8 || l.Hold != 2*time.Minute || !l.Raised.Equal(start) {
		t.Errorf("the level before: %+v", l)
	}
	if s.Hold != 3*time.Minute || !s.Raised.Equal(start.Add(1)) || s.Low != 1 || !s.LowFrom.Equal(start) {
		t.Errorf("%+v", s)
	}
	if why := s.enter(at(0.75), out); !why.None() {
		t.Errorf("the same level: %v", why)
	}
	none := State{Use: 0.6}
	if none.enter(&Input{At: start, Busy: 5}, out); none.Level != 0 {
		t.Errorf("no pool: level %d", none.Level)
	}
	small := State{Use: 0.6}
	if small.enter(&Input{At: start, Pool: 1, Busy: 0.55}, out); small.Level != 5 {
		t.Errorf("a pool of one CPU: level %d", small.Level)
	}
}

// TestChanges: another level has its own use; the use rises only at a lower load, while all goals hold.
func TestChanges(t *testing.T) {
	fine, bad := &Outcome{Goals: []Verdict{{State: Fine}}}, &Outcome{Goals: []Verdict{{State: Missed}}}
	none := &Outcome{Worst: -1}
	for _, c := range []struct {
		name   string
		l      Level
		out    *Outcome
		lower  bool
		misses int
		want   float64
	}{
		{"nothing is known", Level{Ceiling: 0.1}, fine, true, 0, 0.6},
		{"less", Level{Use: 0.5}, fine, false, 0, 0.5}, {"more, at a higher load", Level{Use: 0.8}, fine, false, 0, 0.6},
		{"more", Level{Use: 0.8}, fine, true, 0, 0.8}, {"less, at a lower load", Level{Use: 0.5}, fine, true, 0, 0.6},
		{"more, after a miss", Level{Use: 0.8}, fine, true, 1, 0.6}, {"more, missed", Level{Use: 0.8}, bad, true, 0, 0.6},
		{"more, nothing is read", Level{Use: 0.8}, none, true, 0, 0.6},
		{"more, with a ceiling", Level{Use: 0.8, Ceiling: 0.7}, fine, true, 0, 0.7},
		{"a ceiling of one", Level{Use: 0.8, Ceiling: 1}, fine, true, 0, 0.8},
		{"all", Level{Use: 1}, fine, true, 0, most}, {"next to nothing", Level{Use: 0.001}, fine, false, 0, leastUse},
		{"to four digits", Level{Use: 0.123456}, fine, false, 0, 0.1235},
	} {
		s := State{Use: 0.6, Ceiling: 0.9, Misses: c.misses, Low: 0.3}
		s.change(&Input{At: start}, c.out, &c.l, c.lower)
		if s.Use != c.want || !s.Changed.IsZero() || !s.Fell.IsZero() || s.Low != 1 {
			t.Errorf("%s: %+v", c.name, s)
		}
		if c.l.Use == 0 && s.Ceiling != 0.9 || c.l.Use != 0 && (s.Ceiling != c.l.Ceiling || s.Hold != leastHold) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// TestBlames: a higher load causes a miss just after it: the ceiling of its level falls, and the current one stays.
func TestBlames(t *testing.T) {
	v, _ := missed(0.1) // window of 10 s
	ago := func(d time.Duration) time.Time { return start.Add(-d) }
	for _, c := range []struct {
		name  string
		level int
		l     Level
		want  string
	}{
		{"just now", 7, Level{Use: 0.8, Last: ago(10 * time.Second)}, "0.78 0.78"},
		{"with a ceiling", 7, Level{Use: 0.8, Ceiling: 0.75, Last: ago(0)}, "0.73 0.73"},
		{"with a higher ceiling", 7, Level{Use: 0.8, Ceiling: 0.9, Last: ago(0)}, "0.78 0.78"},
		{"the highest", 9, Level{Use: 0.95, Last: ago(0)}, "0.93 0.93"},
		{"too long ago", 7, Level{Use: 0.8, Last: ago(10*time.Second + 1)}, "no"},
		{"batch work had nothing", 7, Level{Use: 0.715, Last: ago(0)}, "no"},
		{"batch work had a little", 7, Level{Use: 0.73, Last: ago(0)}, "0.71 0.71"},
		{"the current level", 3, Level{Use: 0.8, Last: ago(0)}, "no"},
		{"a lower one", 2, Level{Use: 0.8, Last: ago(0)}, "no"},
	} {
		s := State{Level: 3, Levels: make([]Level, levels)}
		s.Levels[c.level] = c.l
		got := "no"
		if s.blame(&Input{At: start}, v) {
			got = fmt.Sprintf("%.2f %.2f", s.Levels[c.level].Ceiling, s.Levels[c.level].Use)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	s := State{Use: 0.8, Ceiling: 0.9, Level: 3, Levels: make([]Level, levels)}
	s.Levels[7] = Level{Use: 0.8, Last: start}
	w, m := missed(0.1)
	if s.back(full(0.8), w, m); s.Ceiling != 0.9 {
		t.Errorf("the current ceiling is %v", s.Ceiling)
	}
	s.Levels[7].Last, s.Misses = time.Time{}, 0
	if s.back(full(0.8), w, m); s.Levels[7].Ceiling > s.Ceiling {
		t.Errorf("a higher level has a ceiling of %v, the current one of %v", s.Levels[7].Ceiling, s.Ceiling)
	}
}

// TestCaps: no higher level has a higher ceiling.
func TestCaps(t *testing.T) {
	s := State{Level: 3, Ceiling: 0.5, Levels: make([]Level, levels)}
	s.Levels[2] = Level{Use: 0.9, Ceiling: 0.9}
	s.Levels[3] = Level{Use: 0.9, Ceiling: 0.9}
	s.Levels[4] = Level{Use: 0.9, Ceiling: 0.9}
	s.Levels[5] = Level{Use: 0.9}
	s.Levels[6] = Level{Use: 0.9, Ceiling: 0.4}
	s.Levels[7] = Level{Ceiling: 0.9}
	s.cap()
	got := ""
	for _, l := range s.Levels[2:] {
		got += fmt.Sprint(" ", l.Ceiling)
	}
	if got != " 0.9 0.9 0.5 0.5 0.4 0.9 0 0" {
		t.Errorf("ceilings%s", got)
	}
}

// TestHours: the use at which the goals held in an hour of the week, which falls slowly.
func TestHours(t *testing.T) {
	goals := func(state string) []Verdict { return []Verdict{{State: state}} }
	for _, c := range []struct {
		name      string
		had       map[int]int
		out       Outcome
		use, busy float64
		want      int
	}{
		{"the first time", nil, Outcome{Goals: goals(Fine)}, 0.8, 0.7, 70},
		{"no more than the use", nil, Outcome{Goals: goals(Fine)}, 0.6, 0.7, 60},
		{"more", map[int]int{5: 50}, Outcome{Goals: goals(Fine)}, 0.8, 0.7, 70},
		{"less", map[int]int{5: 90}, Outcome{Goals: goals(Fine)}, 0.8, 0.7, 90},
		{"less, near", map[int]int{5: 90}, Outcome{Goals: goals(Near)}, 0.8, 0.7, 88},
		{"a little less, near", map[int]int{5: 72}, Outcome{Goals: goals(Near)}, 0.8, 0.7, 71},
		{"as much, near", map[int]int{5: 70}, Outcome{Goals: goals(Near)}, 0.8, 0.7, 70},
		{"missed", map[int]int{5: 50}, Outcome{Goals: goals(Missed)}, 0.8, 0.7, 50},
		{"fallen back", map[int]int{5: 50}, Outcome{Fell: true, Goals: goals(Fine)}, 0.8, 0.7, 50},
		{"nothing is read", map[int]int{5: 50}, Outcome{Worst: -1}, 0.8, 0.7, 50},
		{"0 held", map[int]int{5: 0}, Outcome{Worst: -1}, 0.8, 0.7, 0},
	} {
		s := State{Use: c.use, Hours: c.had, Hour: 5}
		s.remember(&Input{Hour: 5, Pool: 10, Busy: 10 * c.busy}, &c.out)
		if s.Hours[5] != c.want || s.Use != c.use {
			t.Errorf("%s: %v, use %v", c.name, s.Hours, s.Use)
		}
	}
	for known, want := range map[int]float64{0: 0.8, 40: 0.4, 80: 0.8, 90: 0.8} {
		s := State{Use: 0.8, Hour: 4, Hours: map[int]int{5: known}}
		if s.remember(&Input{Hour: 5, Pool: 10}, &Outcome{Worst: -1}); s.Use != want || s.Hour != 5 {
			t.Errorf("an hour begins at which %d %% held: use %v, hour %d", known, s.Use, s.Hour)
		}
	}
}

// TestTries: the first resource that can be limited and was not found to bring nothing within the hour.
func TestTries(t *testing.T) {
	two := []Resource{Cache, Bandwidth}
	for _, c := range []struct {
		name    string
		can     []Resource
		limits  map[Resource]int
		cleared map[Resource]time.Time
		want    Resource
	}{
		{"none can be", nil, nil, nil, ""}, {"both", two, nil, nil, Cache}, {"one", two[1:], nil, nil, Bandwidth},
		{"limited already", two, map[Resource]int{Cache: 50}, nil, Bandwidth},
		{"found to bring nothing", two, nil, map[Resource]time.Time{Cache: start.Add(-clearedFor + 1)}, Bandwidth},
		{"long ago", two, nil, map[Resource]time.Time{Cache: start.Add(-clearedFor)}, Cache},
		{"both did", two, nil, map[Resource]time.Time{Cache: start, Bandwidth: start}, ""},
	} {
		s := State{Limits: c.limits, Cleared: c.cleared}
		why := s.tryNext(&Input{At: start, Can: c.can}, &Verdict{Slack: 0.05})
		if s.Trial.Resource != c.want || why.None() != (c.want == "") {
			t.Errorf("%s: %+v", c.name, s.Trial)
		}
		if c.want != "" && (s.Limits[c.want] != 50 || s.Trial.Slack != 0.05 || !s.Trial.Began.Equal(start)) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// TestTrial: a limit that brings slack stays, another is taken off after the trial.
func TestTrial(t *testing.T) {
	for _, c := range []struct {
		name   string
		gone   time.Duration
		slack  float64
		window time.Duration
		want   words.Code
		left   int
	}{
		{"too early", trialFor - 1, 0.5, time.Second, words.GoalTrying, 50},
		{"it helps", trialFor, 0.081, time.Second, words.GoalHurts, 50},
		{"it helps nothing", trialFor, 0.079, time.Second, words.GoalHarmless, 0},
		{"a long window", time.Minute - 1, 0.5, 30 * time.Second, words.GoalTrying, 50},
		{"after a long window", time.Minute, 0.5, 30 * time.Second, words.GoalHurts, 50},
	} {
		s := State{Ceiling: 0.7, Limits: map[Resource]int{Cache: 50}}
		s.Trial = Trial{Resource: Cache, Began: start.Add(-c.gone), Slack: 0.05}
		why := s.tryOn(&Input{At: start}, &Verdict{Slack: c.slack, Reading: Reading{Window: c.window}})
		if why.Code != c.want || s.Limits[Cache] != c.left {
			t.Errorf("%s: %v, %+v", c.name, why, s)
		}
		if c.want == words.GoalTrying && !why.Equal(words.Because(words.GoalTrying, string(Cache), time.Duration(1))) {
			t.Errorf("%s: %v", c.name, why)
		}
		over := s.Trial == Trial{}
		if over != (c.want != words.GoalTrying) || (s.Ceiling == 0) != (c.want == words.GoalHurts) {
			t.Errorf("%s: %+v", c.name, s)
		}
		if cleared := s.Cleared[Cache].Equal(start); cleared != (c.want == words.GoalHarmless) {
			t.Errorf("%s: found to bring nothing: %v", c.name, cleared)
		}
	}
	none := State{Limits: map[Resource]int{Cache: 50}}
	if none.endTrial(); none.Limits[Cache] != 50 {
		t.Error("a limit that is not on trial is taken off")
	}
}
