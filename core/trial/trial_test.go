package trial

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/measure"
)

func TestOrders(t *testing.T) {
	p := Plan{Arms: Arms, Blocks: 600, Seed: 7}
	first := map[Arm]int{}
	for b, arms := range p.Orders() {
		first[arms[0]]++
		if slices.Sort(arms); !slices.Equal(arms, []Arm{Balancing, Caches, Off, On}) {
			t.Fatalf("block %d has the arms %v", b, arms)
		}
	}
	for _, a := range Arms {
		if first[a] < 110 || first[a] > 190 {
			t.Errorf("%s is first in %d of 600 blocks", a, first[a])
		}
	}
	again := p
	if !slices.EqualFunc(p.Orders(), again.Orders(), slices.Equal) {
		t.Error("the same seed gives two orders")
	}
	again.Seed = 8
	if slices.EqualFunc(p.Orders(), again.Orders(), slices.Equal) {
		t.Error("two seeds give the same order")
	}
}

func TestCheck(t *testing.T) {
	good := Plan{Arms: []Arm{Off, On}, Blocks: 6, Period: time.Minute, Every: time.Second}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Plan)
		want   string
	}{
		{func(p *Plan) { p.Arms = []Arm{On} }, "arms on: want two or more of off, balancing, caches, on"},
		{func(p *Plan) { p.Arms = []Arm{On, On} }, "arm on: given twice"},
		{func(p *Plan) { p.Arms = []Arm{On, "fast"} }, `"fast" is not an arm; want off, balancing, caches or on`},
		{func(p *Plan) { p.Blocks = 5 }, "blocks 5: want 6 or more; fewer can show nothing with 95 % confidence"},
		{func(p *Plan) { p.Period = 3 * time.Second }, "period 3s: want 4 readings or more, so 4s or more with a reading every 1s"},
		{func(p *Plan) { p.Washout = -1 }, "washout -1ns: want 0 or more"},
	} {
		p := good
		p.Arms = slices.Clone(p.Arms)
		if c.change(&p); p.Check() == nil || p.Check().Error() != c.want {
			t.Errorf("got %v\nwant %s", p.Check(), c.want)
		}
	}
}

func TestLeast(t *testing.T) {
	for comparisons, want := range map[int]int{0: 6, 1: 6, 2: 7, 10: 9} {
		if got := Least(comparisons); got != want {
			t.Errorf("%d comparisons need %d blocks, want %d", comparisons, got, want)
		}
	}
}

func TestEnds(t *testing.T) {
	r := measure.NewRandom(1)
	means := make([]float64, 500)
	for i := range means {
		means[i] = r.Normal()
	}
	sorted := slices.Sorted(slices.Values(means))
	for _, k := range []int{1, 2, 17, 250} {
		low, high := ends(means, k)
		if low != sorted[k-1] || high != sorted[len(sorted)-k] {
			t.Errorf("k %d: %v and %v, want %v and %v", k, low, high, sorted[k-1], sorted[len(sorted)-k])
		}
	}
}

// TestHartigan is the interval of six differences by hand: of 63 subsets the smallest mean is
// the smallest difference, the largest mean the largest difference.
func TestHartigan(t *testing.T) {
	low, high, chance := interval([]float64{1, 2, 3, 4, 5, 6}, 0)
	if low != 1 || high != 6 || math.Abs(chance-2.0/64) > 1e-12 {
		t.Errorf("got %v to %v, chance %v; want 1 to 6, 1 in 32", low, high, chance)
	}
}

func TestZerosAreAbsolute(t *testing.T) {
	var periods []Period
	for b := range 8 {
		for i, arm := range []Arm{Off, On} {
			at := float64(100 * (2*b + i))
			p := Period{Block: b, Arm: arm, From: at, To: at + 100}
			for k := range 10 {
				p.Readings = append(p.Readings, Reading{at + float64(10*k), float64(b%2) * float64(1-i)})
			}
			periods = append(periods, p)
		}
	}
	e := Of(&Metric{Name: "stalls", Lower: true}, periods, Comparison{On, Off}, 1)
	if e.Scale != Absolute || math.Abs(e.Change+0.5) > 0.1 || e.Of != 0.5 || e.Is != 0 {
		t.Errorf("got %+v", e)
	}
}

func TestABlockWithoutAnArmDoesNotCount(t *testing.T) {
	w := world{plan: plain(8), noise: 0.01, effect: map[Arm]float64{On: 0.1}}
	periods := w.periods(measure.NewRandom(3))
	periods = slices.DeleteFunc(periods, func(p Period) bool { return p.Block == 2 && p.Arm == Off })
	e := Of(&Metric{}, periods, Comparison{On, Off}, 1)
	if e.Blocks != 7 || e.Verdict != Better {
		t.Errorf("got %+v", e)
	}
}

func TestFewBlocksGiveNoInterval(t *testing.T) {
	w := world{plan: plain(4), noise: 0.01, effect: map[Arm]float64{On: 0.1}}
	e := Of(&Metric{}, w.periods(measure.NewRandom(3)), Comparison{On, Off}, 1)
	if e.Enough || e.Verdict != CannotTell || math.Abs(e.Change-0.1) > 0.05 {
		t.Errorf("got %+v", e)
	}
}

func TestGuard(t *testing.T) {
	g := Guard{Metric: "p99", Worse: 0.2}
	latency, rate, share := Metric{Lower: true}, Metric{}, Metric{Points: true}
	for _, c := range []struct {
		name   string
		m      *Metric
		base   float64
		newest []float64
		broken bool
	}{
		{"too few", &latency, 1, []float64{9, 9}, false},
		{"three in a row", &latency, 1, []float64{1, 1.3, 1.3, 1.3}, true},
		{"one in between", &latency, 1, []float64{1.3, 1.3, 1.1, 1.3}, false},
		{"better", &latency, 1, []float64{0.1, 0.1, 0.1}, false},
		{"higher is better", &rate, 100, []float64{79, 70, 60}, true},
		{"higher is better, just so", &rate, 100, []float64{80, 80, 80}, false},
		{"a share, in points", &share, 0.9, []float64{0.6, 0.6, 0.6}, true},
	} {
		if got := g.Broken(c.m, c.base, c.newest); got != c.broken {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestNoiseNeedsReadings(t *testing.T) {
	p := plain(6)
	if _, _, _, ok := Noise(&Metric{}, make([]Reading, 5), &p); ok {
		t.Error("five readings are enough")
	}
}

func TestNeedsGrowWithNoise(t *testing.T) {
	p := plain(6)
	quiet, loud := Needs(&p, 0.02, Relative, 1, 1), Needs(&p, 0.2, Relative, 1, 1)
	for i := range quiet {
		if quiet[i].Blocks >= loud[i].Blocks || quiet[i].Seconds <= 0 {
			t.Errorf("%+v and %+v", quiet[i], loud[i])
		}
	}
	if n := Needs(&p, 50, Relative, 1, 1); n[0].Blocks != 0 || n[0].Seconds != 0 {
		t.Errorf("got %+v, want none", n[0])
	}
}

// TestArmsOfAnyName: other programs than homenode trial compare other arms; an effect of 10 % on a drift is
// found between them, whatever they are called.
func TestArmsOfAnyName(t *testing.T) {
	plan := Plan{Arms: []Arm{"kernel", "numad", "pinned"}, Blocks: 8, Seed: 3}
	var periods []Period
	at := 0.0
	for b, order := range plan.Orders() {
		for _, arm := range order {
			value := 100 + at/100
			if arm == "pinned" {
				value *= 1.1
			}
			periods = append(periods, Period{Block: b, Arm: arm, From: at, To: at + 10, Readings: []Reading{{At: at + 5, Value: value}}})
			at += 10
		}
	}
	for arm, want := range map[Arm]float64{"pinned": 0.1, "numad": 0} {
		e := Of(&Metric{Name: "m"}, periods, Comparison{arm, "kernel"}, 1)
		if e.Scale != Relative || e.Blocks != 8 || math.Abs(e.Change-want) > 0.001 || e.Of < 99 || e.Of > 104 {
			t.Errorf("%s: %+v", arm, e)
		}
	}
}
