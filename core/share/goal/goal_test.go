package goal_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

var epoch = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

const scan = 2 * time.Second

// host is a service with one metric, which rises with the use, and batch work that takes all it may.
type host struct {
	at     time.Time
	state  goal.State
	out    goal.Outcome
	online float64 // CPUs of 100
	goals  []goal.Reading
}

func newHost() *host { return &host{at: epoch, online: 20} }

// read sets the newest value of goal k.
func (h *host) read(k int, value float64) {
	for len(h.goals) <= k {
		id := workload.ID(string(rune('a' + len(h.goals))))
		h.goals = append(h.goals, goal.Reading{Workload: id, As: "1", Metric: "p99", Unit: "ms", Most: 2, Window: scan})
	}
	g := &h.goals[k]
	g.Value, g.Known, g.At, g.Failed = value, true, h.at, ""
}

func (h *host) input() goal.Input {
	use := h.state.Use
	if use == 0 {
		use = 0.65
	}
	busy := max(h.online+1, 100*use)
	return goal.Input{At: h.at, Hour: goal.HourOfWeek(h.at), Goals: h.goals, Target: 0.65, Pool: 100, Busy: busy, Batch: busy - h.online, Least: 1}
}

func (h *host) scan() goal.Outcome {
	h.out, h.state = goal.Decide(h.input(), h.state)
	h.at = h.at.Add(scan)
	return h.out
}

// wobble is a value that is never twice the same.
func wobble(x float64, i int) float64 { return x * (1 + 0.004*math.Sin(float64(i))) }

// settle scans with a metric that is a function of the use.
func (h *host) settle(scans int, value func(use float64) float64) {
	for i := range scans {
		h.read(0, wobble(value(h.input().Busy/100), i))
		h.scan()
	}
}

// knee is a latency that rises steeply: 2 ms at a use of 0.86.
func knee(use float64) float64 { return 0.4 + 0.224/(1-min(use, 0.99)) }

func TestNoGoals(t *testing.T) {
	out, state := goal.Decide(goal.Input{At: epoch, Target: 0.65}, goal.State{Use: 0.9})
	if out.Use != 0.65 || out.Worst != -1 || !reflect.DeepEqual(state, goal.State{}) {
		t.Errorf("%+v, %+v", out, state)
	}
}

func TestFindsTheHighestUse(t *testing.T) {
	h := newHost()
	h.settle(600, knee)
	if h.state.Use < 0.80 || h.state.Use > 0.86 {
		t.Errorf("use %.3f after 20 minutes; the goal holds up to 0.86", h.state.Use)
	}
}

func TestOneMissStepsBackAtOnce(t *testing.T) {
	h := newHost()
	h.settle(300, knee)
	before := h.state.Use
	h.read(0, 2.2)
	if out := h.scan(); out.Use > before-0.04 {
		t.Errorf("use %.3f after a miss at %.3f", out.Use, before)
	}
	if s := h.out.Goals[0].State; s != goal.Missed {
		t.Errorf("state %s", s)
	}
}

// TestMissAtTheStart: what is missed as the goals begin was measured with all that batch work had before. It calls for
// no further step before its window is over, unless it rises.
func TestMissAtTheStart(t *testing.T) {
	for _, c := range []struct {
		next  float64
		after time.Duration
		steps bool
	}{{4, 2 * time.Second, false}, {6, 2 * time.Second, true}, {4, 10 * time.Second, true}} {
		h := newHost()
		h.read(0, 4)
		h.goals[0].Window = 10 * time.Second
		h.scan()
		if h.out.Use != 0.65 || h.out.Next.Code != words.GoalBegins {
			t.Fatalf("%v: use %v", h.out.Next, h.out.Use)
		}
		h.at = h.at.Add(c.after - scan)
		h.read(0, c.next)
		h.goals[0].Window = 10 * time.Second
		h.scan()
		if stepped := h.out.Use < 0.65; stepped != c.steps {
			t.Errorf("%v after %v: use %v, %v", c.next, c.after, h.out.Use, h.out.Next)
		}
	}
}

// TestSecondMissHalves: two scans after a step of load, batch work has at most half; three after it, its minimum.
func TestSecondMissHalves(t *testing.T) {
	h := newHost()
	h.settle(300, knee)
	had := 100*h.state.Use - h.online
	h.read(0, 3)
	h.scan()
	h.read(0, 3.01)
	if out := h.scan(); 100*out.Use-h.online > had/2 {
		t.Errorf("batch work has %.1f CPUs of %.1f after two misses", 100*out.Use-h.online, had)
	}
	h.read(0, 3.02)
	if out := h.scan(); 100*out.Use-h.online > 1.01 {
		t.Errorf("batch work has %.1f CPUs after three misses", 100*out.Use-h.online)
	}
}

func TestTwoScansWithSlackStepForward(t *testing.T) {
	h := newHost()
	h.read(0, 0.5)
	first := h.scan()
	h.read(0, 0.51)
	second := h.scan()
	h.read(0, 0.52)
	third := h.scan()
	if first.Use != 0.65 || second.Use != 0.65 || third.Use <= 0.65 || third.Use > 0.70 {
		t.Errorf("uses %.3f, %.3f, %.3f; want 0.65 at the beginning and after one scan, then a step", first.Use, second.Use, third.Use)
	}
}

func TestWorstDecides(t *testing.T) {
	h := newHost()
	for i := range 20 {
		h.read(0, wobble(0.3, i))
		h.read(1, wobble(1.95, i))
		h.scan()
	}
	if h.out.Worst != 1 || h.state.Use > 0.65 {
		t.Errorf("goal %d decides, use %.3f", h.out.Worst, h.state.Use)
	}
}

func TestUnusableMetrics(t *testing.T) {
	for _, x := range []struct {
		name, state string
		spoil       func(h *host, i int)
	}{
		{"stale", goal.Stale, func(*host, int) {}},
		{"unread", goal.Unread, func(h *host, _ int) { h.goals[0].Failed = "connection refused" }},
		{"constant", goal.Same, func(h *host, _ int) { h.read(0, 0.7) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := newHost()
			h.settle(200, func(float64) float64 { return 0.5 })
			if h.state.Use < 0.8 {
				t.Fatalf("use %.3f with much slack", h.state.Use)
			}
			for i := range 60 {
				x.spoil(h, i)
				h.scan()
			}
			if g := h.out.Goals[0]; g.State != x.state || g.Why.None() {
				t.Errorf("state %s, want %s: %s", g.State, x.state, g.Why)
			}
			if !h.out.Fell || h.out.Use != 0.65 {
				t.Errorf("use %.3f, fell %t; want the target", h.out.Use, h.out.Fell)
			}
			for i := range 40 { // it comes back
				h.read(0, wobble(0.5, i))
				h.scan()
			}
			if h.out.Fell || h.out.Use <= 0.65 {
				t.Errorf("use %.3f, fell %t after the metric is back", h.out.Use, h.out.Fell)
			}
		})
	}
}

func TestSteadyMayBeConstant(t *testing.T) {
	h := newHost()
	for range 100 {
		h.read(0, 0)
		h.goals[0].Steady = true
		h.scan()
	}
	if h.out.Fell || h.state.Use < 0.8 {
		t.Errorf("use %.3f, %+v", h.state.Use, h.out.Goals)
	}
}

// TestForgets: another workload under the same ID, or another limit, begins anew.
func TestForgets(t *testing.T) {
	for name, change := range map[string]func(*goal.Reading){
		"workload": func(r *goal.Reading) { r.As = "2" },
		"limit":    func(r *goal.Reading) { r.Most = 1 },
		"metric":   func(r *goal.Reading) { r.Metric = "p50" },
	} {
		h := newHost()
		h.settle(600, knee)
		if len(h.state.Hours) == 0 {
			t.Fatal("nothing was learned")
		}
		h.read(0, 0.9)
		change(&h.goals[0])
		h.scan()
		if h.state.Ceiling != 0 || h.out.Use > 0.65 || len(h.state.Hours) > 1 {
			t.Errorf("%s: use %.3f, %+v", name, h.out.Use, h.state)
		}
	}
}

// TestRemembersTheHour: what held at an hour is where the next week begins at that hour, when it is less.
func TestRemembersTheHour(t *testing.T) {
	h := newHost()
	h.at = epoch.Add(-30 * time.Minute)
	h.settle(900, func(use float64) float64 { return knee(use + 0.2) }) // half an hour of a heavy hour: 0.66 holds
	low := h.state.Use
	h.at = epoch.Add(time.Hour)
	h.settle(900, knee)
	if h.state.Use < low+0.08 {
		t.Fatalf("use %.3f in the light hour, %.3f in the heavy one", h.state.Use, low)
	}
	h.at = epoch.Add(7*24*time.Hour - 30*time.Minute)
	h.read(0, 1)
	if out := h.scan(); out.Use > low+0.02 {
		t.Errorf("a week later the heavy hour begins at %.3f; %.3f held", out.Use, low)
	}
}

// TestTriesOneResource: at the ceiling one resource is limited; what brings slack stays, what does not is undone.
func TestTriesOneResource(t *testing.T) {
	for _, hurts := range append(slices.Clone(goal.Resources), "") {
		h := newHost()
		most := 0
		for i := range 1500 {
			x := knee(h.input().Busy / 100)
			if hurts == "" || h.state.Limits[hurts] == 0 {
				x *= 1.15
			}
			h.read(0, wobble(x, i))
			in := h.input()
			in.Can = goal.Resources
			h.out, h.state = goal.Decide(in, h.state)
			h.at = h.at.Add(scan)
			most = max(most, len(h.out.Limits))
		}
		if hurts == "" && len(h.out.Limits) > 0 || hurts != "" && (h.out.Limits[hurts] == 0 || len(h.out.Limits) != 1) {
			t.Errorf("%q hurts; limited: %v", hurts, h.out.Limits)
		}
		if most > 2 || most > 1 && hurts == "" { // what stays, and one that is tried
			t.Errorf("%d at once", most)
		}
	}
}

// TestSpikesKeepTheUseBetween: a spike of online load, in which little batch work is possible, does not bring down
// what holds between spikes. Without a level of load of its own each spike lowered the ceiling of all.
func TestSpikesKeepTheUseBetween(t *testing.T) {
	h := newHost()
	between, spike := 0.0, 0.0
	said := false
	for i := range 1800 { // an hour; 4 s of every 2 minutes
		h.online = 20
		if i%60 >= 58 {
			h.online = 65
		}
		value := knee(h.input().Busy / 100)
		if h.online > 20 {
			value = knee(h.input().Busy/100 + 0.16) // 0.70 holds
		}
		h.read(0, wobble(value, i))
		h.scan()
		if i > 900 && h.online == 20 {
			between += h.state.Use / 870
		}
		if h.online > 20 {
			spike = h.state.Use
		}
		said = said || h.out.Next.Code == words.GoalLevel
	}
	if !said {
		t.Error("no reason says that the load has another level")
	}
	if between < 0.78 {
		t.Errorf("use %.3f between spikes; 0.86 holds there", between)
	}
	if spike >= between {
		t.Errorf("use %.3f in a spike, %.3f between: the spike is not known", spike, between)
	}
}

// TestMissBetweenSpikesCounts: where the load goes up again and again within the window of the metric, a miss of the
// time between must not be taken for one of the spikes for ever.
func TestMissBetweenSpikesCounts(t *testing.T) {
	h := newHost()
	h.settle(300, func(float64) float64 { return 0.5 })
	h.goals[0].Window = 30 * time.Second
	low, most := h.state.Use, 0.0
	for i := range 900 { // half an hour
		h.online = 20
		if i%5 == 4 {
			h.online = 65
		}
		value := 1.0
		if low > 0.60 { // more than 60 % does not hold at the low load
			value = 2.4
		}
		h.read(0, wobble(value, i))
		h.goals[0].Window = 30 * time.Second
		h.scan()
		if h.online == 20 {
			low = h.state.Use
		}
		if i > 450 {
			most = max(most, low)
		}
	}
	if most > 0.62 {
		t.Errorf("the use rises to %.3f again and again; 0.60 holds", most)
	}
}

// TestHigherLoadNeverGetsMore: no level of load has a higher ceiling than a lower one that was missed after it.
func TestHigherLoadNeverGetsMore(t *testing.T) {
	h := newHost()
	h.online = 50
	h.settle(600, func(float64) float64 { return 0.5 }) // much holds at half load
	h.online = 20
	h.settle(600, func(use float64) float64 { return knee(use + 0.2) })
	low := h.state.Ceiling
	h.online = 50
	h.read(0, 1)
	if out := h.scan(); low == 0 || out.Use > low+1e-9 {
		t.Errorf("use %.3f at half load; %.3f is the most at a fifth: %s", out.Use, low, out.Next)
	}
}

func TestFewReversals(t *testing.T) {
	h := newHost()
	turns, last, dir := 0, 0.65, 0.0
	for i := range 1800 { // an hour with noise of 5 %
		noise := 1 + 0.05*math.Sin(1.7*float64(i))*math.Cos(0.31*float64(i))
		h.read(0, knee(h.input().Busy/100)*noise)
		h.scan()
		if d := h.out.Use - last; d != 0 {
			if dir != 0 && math.Signbit(d) != math.Signbit(dir) {
				turns++
			}
			dir = d
		}
		last = h.out.Use
	}
	if turns > 30 {
		t.Errorf("%d reversals in an hour", turns)
	}
}

// script draws inputs of every kind.
func script(r *rapid.T) []goal.Input {
	at := epoch
	n := rapid.IntRange(1, 60).Draw(r, "scans")
	out := make([]goal.Input, 0, n)
	var goals []goal.Reading
	for range rapid.IntRange(0, 3).Draw(r, "goals") {
		id := workload.ID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "id"))
		goals = append(goals, goal.Reading{Workload: id, Metric: rapid.SampledFrom([]string{"p50", "p99"}).Draw(r, "metric"),
			Most: rapid.Float64Range(0.001, 1000).Draw(r, "most"), Window: time.Duration(rapid.IntRange(1, 60).Draw(r, "window")) * time.Second})
	}
	goals = goal.Sorted(goals)
	for range n {
		at = at.Add(time.Duration(rapid.IntRange(-3, 20).Draw(r, "step")) * time.Second)
		now := make([]goal.Reading, len(goals))
		copy(now, goals)
		for i := range now {
			g := &now[i]
			g.As = rapid.SampledFrom([]string{"1", "1", "1", "2"}).Draw(r, "as")
			if rapid.Bool().Draw(r, "read") {
				g.Value, g.Known, g.At = g.Most*rapid.Float64Range(0, 3).Draw(r, "value"), true, at
			}
			if rapid.IntRange(0, 9).Draw(r, "fails") == 0 {
				g.Failed = "fails"
			}
		}
		copy(goals, now)
		pool := rapid.Float64Range(0, 256).Draw(r, "pool")
		busy := rapid.Float64Range(0, pool).Draw(r, "busy")
		out = append(out, goal.Input{At: at, Hour: goal.HourOfWeek(at), Goals: now, Target: rapid.Float64Range(0.01, 1).Draw(r, "target"),
			Pool: pool, Busy: busy, Batch: busy * rapid.Float64Range(0, 1).Draw(r, "batch"), Least: rapid.Float64Range(0, 4).Draw(r, "least"),
			Can: goal.Resources[:rapid.IntRange(0, len(goal.Resources)).Draw(r, "can")]})
	}
	return out
}

// play calls f with each decision.
func play(r *rapid.T, f func(in goal.Input, was goal.State, out goal.Outcome, now goal.State)) {
	var state goal.State
	for _, in := range script(r) {
		out, now := goal.Decide(in, state)
		f(in, state, out, now)
		state = now
	}
}

func TestMissedNeverRises(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		play(r, func(in goal.Input, was goal.State, out goal.Outcome, now goal.State) {
			for _, g := range out.Goals {
				fresh := was.Use == 0 || len(now.Goals) != len(was.Goals)
				for i := range now.Goals {
					fresh = fresh || i < len(was.Goals) && was.Goals[i].As != now.Goals[i].As
				}
				floor := (in.Busy - in.Batch + in.Least) / max(in.Pool, 1e-9)
				if g.State == goal.Missed && !fresh && out.Use > max(was.Use, floor, 0.01)+1e-4 {
					r.Fatalf("missed, and the use rose from %v to %v (floor %v)", was.Use, out.Use, floor)
				}
			}
		})
	})
}

func TestUnusableFallsBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		play(r, func(in goal.Input, _ goal.State, out goal.Outcome, _ goal.State) {
			floor := (in.Busy - in.Batch + in.Least) / max(in.Pool, 1e-9)
			lost := len(out.Goals) == 0
			for _, g := range out.Goals {
				lost = lost || !g.Why.None()
			}
			if lost && out.Use > max(in.Target, floor, 0.01)+1e-4 {
				r.Fatalf("use %v above the target %v with %+v", out.Use, in.Target, out.Goals)
			}
		})
	})
}

func TestBoundedAndPure(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		play(r, func(in goal.Input, was goal.State, out goal.Outcome, now goal.State) {
			if !(out.Use > 0 && out.Use <= 1) {
				r.Fatalf("use %v", out.Use)
			}
			if len(in.Goals) > 0 && out.Next.None() {
				r.Fatal("no reason")
			}
			again, same := goal.Decide(in, was)
			if !reflect.DeepEqual(again, out) || !reflect.DeepEqual(same, now) {
				r.Fatal("the same input, another decision")
			}
			if len(now.Hours) > 168 || len(now.Goals) > len(in.Goals) {
				r.Fatalf("unbounded state: %+v", now)
			}
			limited := 0
			for range out.Limits {
				limited++
			}
			if limited > len(goal.Resources) {
				r.Fatal("unbounded limits")
			}
		})
	})
}

// TestLittleIsNotUnused: batch work that has less than a CPU may be unable to use it, next to an online-strict service or
// at the start of a part of a tenth of a second. That is no sign that it asks for nothing: the use still rises.
func TestLittleIsNotUnused(t *testing.T) {
	const pool, online = 6.0, 0.1
	var state goal.State
	at := epoch
	scans := func(n int, value float64) (use float64) {
		for i := range n {
			may := max(0, state.Use*pool-online)
			batch := may
			if may < 1 {
				batch = may / 10
			}
			in := goal.Input{At: at, Hour: goal.HourOfWeek(at), Target: 0.65, Pool: pool, Busy: online + batch, Batch: batch, Least: 0.06,
				Goals: []goal.Reading{{Workload: "a", As: "1", Metric: "p99", Unit: "ms", Most: 2.5, Value: wobble(value, i), Known: true,
					At: at, Window: 4 * time.Second}}}
			_, state = goal.Decide(in, state)
			at = at.Add(scan)
		}
		return state.Use
	}
	scans(5, 1)
	if use := scans(5, 9); use > 0.1 {
		t.Fatalf("use %.3f after five misses", use)
	}
	if use := scans(90, 0.5); use < 0.4 {
		t.Errorf("use %.3f after three minutes with much slack", use)
	}
}
