package trial

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/homenode/homenode/core/measure"
)

// runs is how many trials each simulation makes.
const runs = 1000

// world is a machine under a trial, and the noise of what is read there.
type world struct {
	plan   Plan
	effect map[Arm]float64 // factor - 1, in steady state
	noise  float64         // of a reading
	memory float64         // correlation of a reading with the one before
	tails  bool            // one reading in fifty is three times as high
	drift  float64         // per trial
	rhythm float64         // amplitude
	every  time.Duration   // period of the rhythm
	carry  time.Duration   // time constant with which an arm comes to have its effect
	points bool            // the metric is a share
}

// periods draws one trial.
func (w *world) periods(r *measure.Random) []Period {
	var out []Period
	at, level, ar := 0.0, 0.0, r.Normal()
	first := true
	phase := 2 * math.Pi * r.Float64()
	total := w.plan.Duration().Seconds()
	for b, arms := range w.plan.Orders() {
		for _, arm := range arms {
			target := math.Log1p(w.effect[arm])
			if first {
				level, first = target, false
			}
			p := Period{Block: b, Arm: arm, From: at + w.plan.Washout.Seconds(), To: at + (w.plan.Washout + w.plan.Period).Seconds()}
			for ; at < p.To; at += w.plan.Every.Seconds() {
				if w.carry > 0 {
					level += (target - level) * (1 - math.Exp(-w.plan.Every.Seconds()/w.carry.Seconds()))
				} else {
					level = target
				}
				ar = w.memory*ar + math.Sqrt(1-w.memory*w.memory)*r.Normal()
				x := level + w.noise*ar + w.drift*at/total
				if w.every > 0 {
					x += w.rhythm * math.Sin(2*math.Pi*at/w.every.Seconds()+phase)
				}
				if w.tails && r.Float64() < 0.02 {
					x += math.Log(3)
				}
				v := math.Exp(x)
				if w.points {
					v = 0.5 + x
				}
				if at >= p.From {
					p.Readings = append(p.Readings, Reading{at, v})
				}
			}
			out = append(out, p)
		}
	}
	return out
}

func plain(blocks int) Plan {
	return Plan{Arms: []Arm{Off, On}, Blocks: blocks, Period: 5 * time.Minute, Washout: 90 * time.Second, Every: 30 * time.Second}
}

// outcome is what so many trials said.
type outcome struct{ covered, better, worse float64 }

func (o outcome) claimed() float64 { return o.better + o.worse }

func simulate(w world, seed uint64) (out outcome) {
	truth := math.Expm1(math.Log1p(w.effect[On]) - math.Log1p(w.effect[w.plan.Arms[0]]))
	if w.points {
		truth = math.Log1p(w.effect[On])
	}
	for i := range uint64(runs) {
		r := measure.NewRandom(seed<<32 + i)
		w.plan.Seed = r.Uint64()
		e := Of(&Metric{Name: "m", Points: w.points}, w.periods(r), Comparison{On, w.plan.Arms[0]}, w.plan.Seed)
		if e.Low <= truth && truth <= e.High {
			out.covered += 1.0 / runs
		}
		switch e.Verdict {
		case Better:
			out.better += 1.0 / runs
		case Worse:
			out.worse += 1.0 / runs
		}
	}
	return out
}

var worlds = []struct {
	name string
	world
}{
	{"independent readings", world{plan: plain(12), noise: 0.1}},
	{"six blocks, the fewest", world{plan: plain(6), noise: 0.1}},
	{"readings that go on", world{plan: plain(12), noise: 0.1, memory: 0.9}},
	{"rare high readings", world{plan: plain(12), noise: 0.05, tails: true}},
	{"a load that doubles over the trial", world{plan: plain(12), noise: 0.1, drift: math.Log(2)}},
	{"day and night, two hours long", world{plan: plain(16), noise: 0.1, rhythm: 0.5, every: 2 * time.Hour}},
	{"a job every half hour", world{plan: plain(12), noise: 0.1, rhythm: 0.2, every: 30 * time.Minute}},
	{"a job as often as blocks", world{plan: plain(12), noise: 0.1, rhythm: 0.2, every: 13 * time.Minute}},
	{"an arm that takes a minute to work", world{plan: plain(12), noise: 0.1, carry: time.Minute}},
	{"three arms", world{plan: Plan{Arms: []Arm{Off, Balancing, On}, Blocks: 12, Period: 5 * time.Minute, Washout: 90 * time.Second, Every: 30 * time.Second}, noise: 0.1, drift: 0.5}},
	{"a share", world{plan: plain(12), noise: 0.05, points: true, drift: 0.1}},
	{"everything at once", world{plan: plain(24), noise: 0.1, memory: 0.8, tails: true, drift: 0.5, rhythm: 0.3, every: 3 * time.Hour, carry: 30 * time.Second}},
}

func TestIntervalsCoverTheTruth(t *testing.T) {
	for i, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for k, effect := range []float64{0.1, -0.05} {
				x := w.world
				x.effect = map[Arm]float64{On: effect, Balancing: 0.02}
				o := simulate(x, uint64(100*i+k))
				t.Logf("effect %+.0f %%: covered in %.1f %%, better %.1f %%, worse %.1f %%", 100*effect, 100*o.covered, 100*o.better, 100*o.worse)
				if o.covered < 0.90 || o.covered > 0.99 {
					t.Errorf("effect %+.0f %%: the interval covers it in %.1f %% of %d trials; want 90 to 99", 100*effect, 100*o.covered, runs)
				}
				if wrong := map[bool]float64{true: o.worse, false: o.better}[effect > 0]; wrong > 0.03 {
					t.Errorf("effect %+.0f %%: %.1f %% of the trials claim the opposite", 100*effect, 100*wrong)
				}
			}
		})
	}
}

func TestNoEffectNoClaim(t *testing.T) {
	for i, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			o := simulate(w.world, uint64(5000+i))
			t.Logf("claimed in %.1f %%, covered in %.1f %%", 100*o.claimed(), 100*o.covered)
			if o.claimed() > 0.06 {
				t.Errorf("%.1f %% of %d trials claim an effect where there is none; want 6 or fewer", 100*o.claimed(), runs)
			}
		})
	}
}

// TestCarryOverIsSeen: without the second look at the halves, an arm that takes long to work
// would seem to do less than it does.
func TestCarryOverIsSeen(t *testing.T) {
	w := world{plan: plain(12), noise: 0.03, carry: 90 * time.Second, effect: map[Arm]float64{On: 0.2}}
	w.plan.Washout = 0
	seen := 0
	for i := range uint64(runs) {
		r := measure.NewRandom(i)
		w.plan.Seed = r.Uint64()
		if Of(&Metric{Name: "m"}, w.periods(r), Comparison{On, Off}, w.plan.Seed).Carried {
			seen++
		}
	}
	if seen < runs*95/100 {
		t.Errorf("carry-over was seen in %d of %d trials", seen, runs)
	}
}

func TestManyMetricsClaimNoMore(t *testing.T) {
	w := world{plan: plain(12), noise: 0.1}
	w.plan.Arms = Arms
	var metrics []Metric
	for i := range 3 {
		metrics = append(metrics, Metric{Name: fmt.Sprint(i)})
	}
	false1, found := 0, 0
	for i := range uint64(runs) {
		r := measure.NewRandom(900<<32 + i)
		w.plan.Seed = r.Uint64()
		var none, one []Effect
		for k := range metrics {
			x := w
			if none = append(none, effects(&x, r, &metrics[k])...); k == 0 {
				x.effect = map[Arm]float64{On: 0.25}
			}
			one = append(one, effects(&x, r, &metrics[k])...)
		}
		Judge(metrics, none)
		Judge(metrics, one)
		if claims(none) > 0 {
			false1++
		}
		if one[0].Verdict == Better {
			found++
		}
	}
	t.Logf("%d of %d trials with 9 comparisons claim one that is not there; %d find a large one", false1, runs, found)
	if false1 > runs*6/100 {
		t.Errorf("%d of %d trials claim an effect where there is none", false1, runs)
	}
	if found < runs*95/100 {
		t.Errorf("%d of %d trials find an effect of 25 %%", found, runs)
	}
}

func effects(w *world, r *measure.Random, m *Metric) (out []Effect) {
	periods := w.periods(r)
	for _, c := range w.plan.Comparisons() {
		out = append(out, Of(m, periods, c, w.plan.Seed))
	}
	return out
}

func claims(all []Effect) (n int) {
	for _, e := range all {
		if e.Verdict != CannotTell {
			n++
		}
	}
	return n
}

// TestPowerIsAsTheDryRunSays: the noise is estimated before anything is switched, from readings
// of the same machine; a trial of the length that the dry run gives then finds the effect in 80 %
// of cases.
func TestPowerIsAsTheDryRunSays(t *testing.T) {
	for i, c := range []struct {
		name   string
		world  world
		read   time.Duration
		within float64
	}{
		{"independent readings, two hours", world{noise: 0.25}, 2 * time.Hour, 0.1},
		{"independent readings, a quarter of an hour", world{noise: 0.25}, 15 * time.Minute, 0.1},
		{"readings that go on, eight hours", world{noise: 0.12, memory: 0.9}, 8 * time.Hour, 0.1},
		{"drift, eight hours", world{noise: 0.2, drift: 0.3}, 8 * time.Hour, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for k, effect := range []float64{0.05, 0.1} {
				found, blocks, predicted := 0, 0, 0.0
				for j := range uint64(runs) {
					r := measure.NewRandom(uint64(7000+10*i+k)<<32 + j)
					w := c.world
					w.plan = plain(1 + int(c.read/(5*time.Minute)))
					w.plan.Arms, w.plan.Washout = []Arm{Off}, 0
					var readings []Reading
					for _, p := range w.periods(r) {
						readings = append(readings, p.Readings...)
					}
					plan := plain(6)
					noise, scale, of, ok := Noise(&Metric{}, readings, &plan)
					if !ok || scale != Relative {
						t.Fatalf("%d readings give no noise", len(readings))
					}
					need := Needs(&plan, noise, scale, of, 1)[map[float64]int{0.05: 1, 0.1: 2}[effect]]
					w.plan = plain(need.Blocks)
					w.plan.Seed = r.Uint64()
					w.effect = map[Arm]float64{On: effect}
					if Of(&Metric{}, w.periods(r), Comparison{On, Off}, w.plan.Seed).Verdict == Better {
						found++
					}
					blocks += need.Blocks
					predicted += Power(noise, math.Log1p(effect), need.Blocks, Level) / runs
				}
				got := float64(found) / runs
				t.Logf("effect %.0f %%: %.1f blocks on average, found in %.1f %%, predicted %.1f %%", 100*effect, float64(blocks)/runs, 100*got, 100*predicted)
				if math.Abs(got-predicted) > c.within {
					t.Errorf("effect %.0f %%: found in %.1f %% of %d trials; the dry run says %.1f %%", 100*effect, 100*got, runs, 100*predicted)
				}
			}
		})
	}
}
