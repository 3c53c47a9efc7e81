package goal

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/words"
)

var start = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// near reports whether two figures are the same, but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// TestSlack: the part of the limit that is left, 1 at most; a huge value counts as missed by far, not as infinite.
func TestSlack(t *testing.T) {
	for _, c := range []struct{ most, value, want float64 }{
		{2, 1, 0.5}, {2, 2, 0}, {2, 3, -0.5}, {2, 0, 1}, {2, -2, 1}, {2, 1e9, -100}, {2, 200, -99},
	} {
		r := Reading{Most: c.most, Value: c.value}
		if got := r.Slack(); !near(got, c.want) {
			t.Errorf("%v of %v: %v, want %v", c.value, c.most, got, c.want)
		}
	}
}

// TestTakes: a reading counts once, by its time, and only when it is a number; the newest values are kept.
func TestTakes(t *testing.T) {
	var m Past
	read := func(value float64, after time.Duration) {
		m.take(&Reading{Value: value, Known: true, At: start.Add(after)})
	}
	read(1, 0)
	if !m.New || m.Same != 0 || !m.From.Equal(start) || !m.At.Equal(start) {
		t.Errorf("first: %+v", m)
	}
	read(1, 1)
	read(1, 2)
	if m.Same != 2 || !m.From.Equal(start) || !m.At.Equal(start.Add(2)) || len(m.Values) != 3 {
		t.Errorf("the same value: %+v", m)
	}
	read(2, 3)
	if m.Same != 0 || !m.From.Equal(start.Add(3)) {
		t.Errorf("another value: %+v", m)
	}
	had := m
	read(5, 3)
	read(math.NaN(), 9)
	read(math.Inf(1), 9)
	read(math.Inf(-1), 9)
	m.take(&Reading{Value: 5, At: start.Add(9)})
	if m.New || len(m.Values) != 4 || !m.At.Equal(had.At) {
		t.Errorf("no new value: %+v", m)
	}
	for i := range 30 {
		before := slices.Clone(m.Values)
		held := m.Values
		read(float64(i), time.Duration(10+i))
		if !slices.Equal(held, before) {
			t.Error("what readers have has changed")
		}
	}
	if len(m.Values) != kept || m.Values[kept-1] != 29 || m.Values[0] != 15 {
		t.Errorf("kept: %v", m.Values)
	}
}

// TestMeets: another workload, metric or limit, and another number of goals, is another set of goals.
func TestMeets(t *testing.T) {
	one := Reading{Workload: "/x", As: "1", Metric: "p99", Most: 2, Known: true, Value: 1, At: start}
	two := one
	two.Metric = "p50"
	change := func(f func(*Reading)) []Reading {
		r := one
		f(&r)
		return []Reading{r}
	}
	for _, c := range []struct {
		name          string
		before, after []Reading
		another       bool
		values        int
	}{
		{"the first time", nil, []Reading{one}, false, 1},
		{"the same", []Reading{one}, []Reading{one}, false, 1},
		{"one more", []Reading{one}, []Reading{one, two}, false, 1},
		{"one less", []Reading{one, two}, []Reading{one}, false, 1},
		{"none before, two now", nil, []Reading{one, two}, false, 1},
		{"another workload", []Reading{one}, change(func(r *Reading) { r.Workload = "/y" }), true, 1},
		{"another under its ID", []Reading{one}, change(func(r *Reading) { r.As = "2" }), true, 1},
		{"another metric", []Reading{one}, change(func(r *Reading) { r.Metric = "p50" }), true, 1},
		{"another limit", []Reading{one}, change(func(r *Reading) { r.Most = 3 }), true, 1},
		{"a new value", []Reading{one}, change(func(r *Reading) { r.At, r.Value = start.Add(1), 3 }), false, 2},
	} {
		var s State
		if c.before != nil {
			s.meet(&Input{Goals: c.before})
		}
		if got := s.meet(&Input{Goals: c.after}); got != c.another || len(s.Goals) != len(c.after) {
			t.Errorf("%s: %v, %+v", c.name, got, s.Goals)
		}
		if got := len(s.Goals[0].Values); got != c.values {
			t.Errorf("%s: %d values, want %d", c.name, got, c.values)
		}
	}
}

// TestMargin: three times the usual step between two values, within bounds; the least while few are known.
func TestMargin(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{1, 9, 1}, leastMargin}, {[]float64{1, 1, 1, 1}, leastMargin},
		{[]float64{20, 25, 30, 90, 10, 15}, 0.15}, {[]float64{10, 15, 20, 25}, 0.15}, {[]float64{10, 15, 10, 90}, 0.15}, {[]float64{10, 50, 10, 50}, mostMargin},
	} {
		m := Past{Most: 100, Values: c.values}
		if got := m.margin(); !near(got, c.want) {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

// TestPeak: the largest of the newest values, as slack.
func TestPeak(t *testing.T) {
	m := Past{Most: 100, Values: []float64{90, 20, 70, 40}}
	for n, want := range map[int]float64{1: 0.6, 2: 0.3, 3: 0.3, 4: 0.1, 9: 0.1} {
		if got := m.peak(n); !near(got, want) {
			t.Errorf("of %d: %v, want %v", n, got, want)
		}
	}
}

// TestFalling: the newest value is below the one before by more than a third of the margin.
func TestFalling(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   bool
	}{
		{[]float64{100}, false}, {nil, false}, {[]float64{200, 197}, true}, {[]float64{200, 198}, false},
		{[]float64{200, 200}, false}, {[]float64{200, 210}, false}, {[]float64{300, 200, 201}, false},
		{[]float64{200, 210, 200, 210, 205}, false}, {[]float64{200, 210, 200, 210, 199}, true},
	} {
		m := Past{Most: 100, Values: c.values, New: true}
		if got := m.falling(); got != c.want {
			t.Errorf("%v: %v", c.values, got)
		}
	}
}

// TestJudges: the state of a goal by its value, its age and its repeats.
func TestJudges(t *testing.T) {
	const window = 10 * time.Second // patience of 30 s
	for _, c := range []struct {
		name   string
		change func(*Reading, *Past)
		want   string
		slack  float64
	}{
		{"held", func(*Reading, *Past) {}, Fine, 0.5},
		{"just held", func(r *Reading, _ *Past) { r.Value = 0.9199 }, Fine, 0.0801},
		{"near", func(r *Reading, _ *Past) { r.Value = 0.95 }, Near, 0.05},
		{"at its limit", func(r *Reading, _ *Past) { r.Value = 1 }, Near, 0},
		{"missed", func(r *Reading, _ *Past) { r.Value = 1.5 }, Missed, -0.5},
		{"no number", func(r *Reading, _ *Past) { r.Value = math.NaN() }, Unread, 0},
		{"infinite", func(r *Reading, _ *Past) { r.Value = math.Inf(1) }, Unread, 0},
		{"no limit", func(r *Reading, _ *Past) { r.Most = 0 }, Unread, 0},
		{"not read yet", func(r *Reading, _ *Past) { r.Known = false }, Waiting, 0},
		{"it cannot be read", func(r *Reading, _ *Past) { r.Known, r.Failed = false, "x" }, Unread, 0},
		{"old", func(r *Reading, _ *Past) { r.At = start.Add(-30*time.Second - 1) }, Stale, 0},
		{"old, and it failed", func(r *Reading, _ *Past) { r.At, r.Failed = start.Add(-time.Minute), "x" }, Unread, 0},
		{"it failed just now", func(r *Reading, _ *Past) { r.Failed = "x" }, Fine, 0.5},
		{"not too old", func(r *Reading, _ *Past) { r.At = start.Add(-30 * time.Second) }, Fine, 0.5},
		{"of the future", func(r *Reading, _ *Past) { r.At = start.Add(30*time.Second + 1) }, Stale, 0},
		{"of the near future", func(r *Reading, _ *Past) { r.At = start.Add(30 * time.Second) }, Fine, 0.5},
		{"without a window", func(r *Reading, _ *Past) { r.Window, r.At = 0, start.Add(-leastPatience) }, Fine, 0.5},
		{"without a window, old", func(r *Reading, _ *Past) { r.Window, r.At = 0, start.Add(-leastPatience-1) }, Stale, 0},
		{"constant", func(_ *Reading, m *Past) { m.Same = unchanged }, Same, 0},
		{"constant for a moment", func(_ *Reading, m *Past) {
			m.Same, m.From = unchanged, start.Add(-unchangedFor+1)
		}, Fine, 0.5},
		{"a few times the same", func(_ *Reading, m *Past) { m.Same = unchanged - 1 }, Fine, 0.5},
		{"constant by nature", func(r *Reading, m *Past) { m.Same, r.Steady = unchanged, true }, Fine, 0.5},
	} {
		r := Reading{Workload: "/x", Metric: "p99", Value: 0.5, Most: 1, Known: true, At: start, Window: window}
		s := State{Goals: []Past{{Most: 1, From: start.Add(-unchangedFor)}}}
		c.change(&r, &s.Goals[0])
		v := s.judge(&Input{At: start, Goals: []Reading{r}})[0]
		if v.State != c.want || !near(v.Slack, c.slack) || v.Why.None() != v.usable() {
			t.Errorf("%s: %s, slack %v, why %v", c.name, v.State, v.Slack, v.Why)
		}
	}
}

// TestUnreadable: the first goal that cannot be used is named.
func TestUnreadable(t *testing.T) {
	all := []Verdict{
		{Reading: Reading{Workload: "/a", Metric: "m"}, State: Fine},
		{Reading: Reading{Workload: "/b", Metric: "n"}, State: Stale},
		{Reading: Reading{Workload: "/c", Metric: "o"}, State: Stale},
	}
	if got := unreadable(all); got != "/b n" {
		t.Errorf("%q", got)
	}
	if got := unreadable(all[:1]); got != "" {
		t.Errorf("%q", got)
	}
}

// TestSorted: by workload and metric, each once; what the caller has stays as it is.
func TestSorted(t *testing.T) {
	all := []Reading{
		{Workload: "/b", Metric: "m"}, {Workload: "/a", Metric: "n"}, {Workload: "/a", Metric: "m", Value: 1},
		{Workload: "/a", Metric: "m", Value: 2},
	}
	got := ""
	for _, r := range Sorted(all) {
		got += fmt.Sprintf("%s %s %v; ", r.Workload, r.Metric, r.Value)
	}
	if want := "/a m 1; /a n 0; /b m 0; "; got != want || all[0].Workload != "/b" {
		t.Errorf("%s", got)
	}
}

// TestHourOfWeek: hours from Sunday 0:00, in UTC.
func TestHourOfWeek(t *testing.T) {
	for at, want := range map[time.Time]int{
		time.Date(2026, 3, 1, 0, 59, 0, 0, time.UTC): 0, time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC): 82,
		time.Date(2026, 3, 7, 23, 0, 0, 0, time.UTC):                       167,
		time.Date(2026, 3, 4, 1, 0, 0, 0, time.FixedZone("east", 2*60*60)): 71,
	} {
		if got := HourOfWeek(at); got != want {
			t.Errorf("%s: %d, want %d", at, got, want)
		}
	}
}

// TestClock: times of the future, after the clock was set back, are now.
func TestClock(t *testing.T) {
	later := start.Add(time.Hour)
	s := State{Changed: later, Fell: later, Missed: later, Raised: later, LowFrom: later, Trial: Trial{Began: later}}
	s.heedClock(&Input{At: start})
	for i, at := range []time.Time{s.Changed, s.Fell, s.Missed, s.Raised, s.LowFrom, s.Trial.Began} {
		if !at.Equal(start) {
			t.Errorf("%d: %s", i, at)
		}
	}
	out, now := Decide(Input{At: start, Target: 0.5, Pool: 8, Goals: []Reading{{Workload: "/x", Most: 1}}}, State{
		Use: 0.5, Changed: later, Goals: []Past{{Workload: "/x", Most: 1}},
	})
	if now.Changed.After(start) || out.Worst != -1 {
		t.Errorf("%+v", now)
	}
}

// TestFallsBack: without a usable goal the use is the target, or what held where that is less.
func TestFallsBack(t *testing.T) {
	for held, want := range map[float64]float64{0: 0.6, 0.4: 0.4, 0.9: 0.6, 1: 0.6} {
		s := State{Use: 0.8, Held: held, Well: 3, Misses: 2, Trial: Trial{Resource: Cache, Began: start}}
		s.Limits = map[Resource]int{Cache: limited, Bandwidth: limited}
		out := &Outcome{Goals: []Verdict{{Reading: Reading{Workload: "/x", Metric: "m"}, State: Stale}}}
		why := s.fallBack(&Input{At: start, Target: 0.6}, out)
		if s.Use != want || s.Well != 0 || s.Misses != 0 || s.Trial != (Trial{}) || len(s.Limits) != 1 {
			t.Errorf("held at %v: %+v", held, s)
		}
		if !why.Equal(words.Because(words.GoalFellBack, "/x m", want)) {
			t.Errorf("%v", why)
		}
	}
}
