package trial

import (
	"math"
	"slices"

	"github.com/homenode/homenode/core/measure"
)

// Level is the chance of a claim where there is no effect. Intervals are called 95 %: the rest is
// for the choice that carriedAt makes, which is no part of the test.
const Level = 0.04

// Metric is one thing that is read.
type Metric struct {
	Name   string `json:"name"`             // name for people
	Unit   string `json:"unit,omitempty"`   // unit of its values; absent when not known
	Lower  bool   `json:"lower"`            // whether lower is better
	Points bool   `json:"points,omitempty"` // whether it is a share, 0 to 1: effects are in percentage points
	Kind   Kind   `json:"kind"`             // what it is read with: command, query, file or counter
	From   string `json:"from"`             // the command, the query, the path and pattern, or what is counted
}

// Kind is what a metric is read with.
type Kind string

// Kinds.
const (
	Command Kind = "command"
	Query   Kind = "query"
	File    Kind = "file"
	Counter Kind = "counter"
)

// Reading is one value at one time.
type Reading struct {
	At    float64 `json:"at"`    // seconds since the start of the trial
	Value float64 `json:"value"` // value
}

// Period is the readings of one metric in one period, without its washout.
type Period struct {
	Block    int
	Arm      Arm
	From, To float64 // seconds since the start of the trial
	Readings []Reading
}

// mean is the mean of the readings from one fraction of the period to another. ok is false without any.
func (p *Period) mean(from, to float64) (mean float64, ok bool) {
	sum, n := 0.0, 0
	for _, r := range p.Readings {
		at := (r.At - p.From) / (p.To - p.From)
		if at >= from && (at < to || to == 1) {
			sum += r.Value
			n++
		}
	}
	return sum / float64(n), n > 0
}

// Effect is how much a metric differs between two arms.
type Effect struct {
	Metric string  `json:"metric"` // name of the metric
	Arm    Arm     `json:"arm"`    // arm
	Base   Arm     `json:"base"`   // arm that it is compared with
	Scale  Scale   `json:"scale"`  // what the effect is measured in
	Change float64 `json:"change"` // the effect: 0.05 is 5 % or 5 points more than base
	Low    float64 `json:"low"`    // lower end of its 95 % interval
	High   float64 `json:"high"`   // upper end of its 95 % interval
	// Chance is the probability of a difference as large as this where there is no effect.
	Chance  float64 `json:"chance"`
	Verdict Verdict `json:"verdict"` // verdict, corrected for all comparisons of the trial
	Blocks  int     `json:"blocks"`  // number of blocks with both arms
	Of      float64 `json:"of"`      // mean of the base
	Is      float64 `json:"is"`      // mean of the arm
	// the effect of an arm outlasts the washout: only the second half of each period counts, and the effect may be
	// larger
	Carried bool    `json:"carried,omitempty"`
	Noise   float64 `json:"noise"`     // standard deviation of the difference of one block
	Per     []Pair  `json:"per_block"` // difference of each block
	Enough  bool    `json:"enough"`    // whether there were enough blocks for an interval
	// the interval excludes 0, though the verdict may be cannot tell: with several comparisons some do by chance
	Excludes bool `json:"excludes,omitempty"`
}

// Pair is the difference between the two periods of one block.
type Pair struct {
	Block  int     `json:"block"`  // block, from 0
	Change float64 `json:"change"` // difference, without drift
}

// Scale is what an effect is measured in.
type Scale string

// Scales.
const (
	Relative Scale = "relative" // part of the base
	InPoints Scale = "points"   // difference of shares
	Absolute Scale = "absolute" // difference in the unit of the metric, where values are 0 or below
)

// Verdict is what a trial says of one metric and two arms.
type Verdict string

// Verdicts.
const (
	Better     Verdict = "better"
	Worse      Verdict = "worse"
	CannotTell Verdict = "cannot tell"
	Shown      Verdict = "not judged" // a counter beside the metrics that the user asked for
)

// Of returns how a metric differs between two arms. Its verdict is that of one comparison
// alone; Judge corrects those of a whole trial.
func Of(m *Metric, periods []Period, c Comparison, seed uint64) Effect {
	e := Effect{Metric: m.Name, Arm: c.Arm, Base: c.Base, Scale: Relative, Verdict: CannotTell, Chance: 1}
	whole := differences(periods, c, m.Points, 0, 1)
	early := differences(periods, c, m.Points, 0, 0.5)
	late := differences(periods, c, m.Points, 0.5, 1)
	used := whole
	if carried(&early, &late) {
		used, e.Carried = late, true
	}
	switch {
	case m.Points:
		e.Scale = InPoints
	case !used.logs:
		e.Scale = Absolute
	}
	e.Of = used.of
	e.Is = used.is
	e.Blocks = len(used.d)
	e.Noise = deviation(used.d)
	back := func(x float64) float64 {
		if e.Scale == Relative {
			return math.Expm1(x)
		}
		return x
	}
	for i, d := range used.d {
		e.Per = append(e.Per, Pair{used.block[i], back(d)})
	}
	if len(used.d) == 0 {
		return e
	}
	change := mean(used.d)
	e.Change = back(change)
	e.Low = back(change)
	e.High = back(change)
	if len(used.d) < Least(1) {
		return e
	}
	e.Enough = true
	low, high, chance := interval(used.d, seed)
	e.Low = back(low)
	e.High = back(high)
	e.Chance = chance
	e.Excludes = e.Low > 0 || e.High < 0
	e.judge(m.Lower, chance <= Level)
	return e
}

func (e *Effect) judge(lower, claimed bool) {
	switch {
	case !claimed || e.Change == 0:
		e.Verdict = CannotTell
	case e.Change > 0 != lower:
		e.Verdict = Better
	default:
		e.Verdict = Worse
	}
}

// Judge corrects the verdicts of all effects of a trial for their number (Holm): with no effect
// at all, a trial claims one by chance in 5 % of cases at most, however many metrics it has.
func Judge(metrics []Metric, all []Effect) {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case all[a].Chance < all[b].Chance:
			return -1
		case all[a].Chance > all[b].Chance:
			return 1
		}
		return 0
	})
	claimed := true
	for k, i := range order {
		claimed = claimed && all[i].Chance <= Level/float64(len(all)-k)
		m := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == all[i].Metric })
		all[i].judge(m >= 0 && metrics[m].Lower, claimed)
	}
}

// paired is the differences between two arms, by block.
type paired struct {
	d      []float64
	block  []int
	of, is float64 // means of base and arm
	logs   bool    // d is of logarithms
}

// differences is those between two arms from one fraction of the periods to another, without drift.
func differences(periods []Period, c Comparison, points bool, from, to float64) paired {
	type cell struct{ value, at float64 }
	blocks := map[int]map[Arm]cell{}
	var arms []Arm // those that were measured, in the order of the first block
	out := paired{logs: !points}
	for i := range periods {
		p := &periods[i]
		if !slices.Contains(arms, p.Arm) {
			arms = append(arms, p.Arm)
		}
		v, ok := p.mean(from, to)
		if !ok {
			continue
		}
		if blocks[p.Block] == nil {
			blocks[p.Block] = map[Arm]cell{}
		}
		blocks[p.Block][p.Arm] = cell{v, p.From + (from+to)/2*(p.To-p.From)}
		if v <= 0 {
			out.logs = false
		}
	}
	var whole []int
	for b, cells := range blocks {
		if len(cells) == len(arms) { // else its mean leans to the arms that it has
			whole = append(whole, b)
		}
	}
	slices.Sort(whole)
	centres := make([]cell, len(whole)) // arm-neutral: each has every arm once
	for i, b := range whole {
		for _, arm := range arms {
			x := blocks[b][arm]
			if out.logs {
				x.value = math.Log(x.value)
				blocks[b][arm] = x
			}
			centres[i].value += x.value / float64(len(arms))
			centres[i].at += x.at / float64(len(arms))
		}
	}
	for i, b := range whole {
		left, right := centres[max(0, i-1)], centres[min(len(centres)-1, i+1)]
		slope := 0.0
		if right.at > left.at {
			slope = (right.value - left.value) / (right.at - left.at)
		}
		is, of := blocks[b][c.Arm], blocks[b][c.Base]
		out.d = append(out.d, is.value-of.value-slope*(is.at-of.at))
		out.block = append(out.block, b)
		if out.logs {
			is.value, of.value = math.Exp(is.value), math.Exp(of.value)
		}
		out.is += is.value
		out.of += of.value
	}
	if n := float64(len(out.d)); n > 0 {
		out.is, out.of = out.is/n, out.of/n
	}
	return out
}

// carriedAt is the t value from which the halves of the periods count as different. A lower one
// would choose among two results by their noise, and so claim more than Level where there is no effect.
const carriedAt = 2.7

// carried reports whether the first half of the periods shows another effect than the second.
func carried(early, late *paired) bool {
	if len(early.d) != len(late.d) || len(early.d) < 4 || early.logs != late.logs {
		return false
	}
	gap := make([]float64, len(early.d))
	for i := range gap {
		gap[i] = early.d[i] - late.d[i]
	}
	s := deviation(gap)
	return s > 0 && math.Abs(mean(gap)) > carriedAt*s/math.Sqrt(float64(len(gap)))
}

// subsets is how many are drawn where not all are taken: an end of the interval then is
// between the 1.7th and the 2.3th of 100 in nearly all draws.
const subsets = 1999

// interval is the middle 95 % of the means of subsets of d, and the chance that a mean as far
// from 0 comes from signs alone.
func interval(d []float64, seed uint64) (low, high, chance float64) {
	var means []float64
	if len(d) <= fewBlocks {
		for set := uint64(1); set < 1<<len(d); set++ {
			means = append(means, meanOf(d, set))
		}
	} else {
		r := measure.NewRandom(seed)
		means = make([]float64, 0, subsets)
		for len(means) < subsets {
			sum, n := 0.0, 0.0
			var drawn uint64
			for i, x := range d {
				if i%64 == 0 {
					drawn = r.Uint64()
				}
				in := float64(drawn >> (i % 64) & 1)
				sum += x * in
				n += in
			}
			if n > 0 {
				means = append(means, sum/n)
			}
		}
	}
	all := float64(len(means) + 1)
	below, above := 1.0, 1.0
	for _, m := range means {
		if m <= 0 {
			below++
		}
		if m >= 0 {
			above++
		}
	}
	low, high = ends(means, int(Level/2*all))
	return low, high, min(1, 2*min(below, above)/all)
}

// fewBlocks is up to which all subsets are taken: 1,023.
const fewBlocks = 10

// ends is the kth smallest and the kth largest of means. A sort of all would be most of the
// time of a trial's arithmetic.
func ends(means []float64, k int) (low, high float64) {
	lowest, highest := make([]float64, 0, k+1), make([]float64, 0, k+1)
	for _, m := range means {
		lowest = keep(lowest, m, k)
		highest = keep(highest, -m, k)
	}
	return lowest[k-1], -highest[k-1]
}

// keep puts x among the k smallest, which rise.
func keep(least []float64, x float64, k int) []float64 {
	if len(least) == k && x >= least[k-1] {
		return least
	}
	i, _ := slices.BinarySearch(least, x)
	least = slices.Insert(least, i, x)
	return least[:min(k, len(least))]
}

func meanOf(d []float64, set uint64) float64 {
	sum, n := 0.0, 0
	for i, x := range d {
		if set>>i&1 == 1 {
			sum += x
			n++
		}
	}
	return sum / float64(n)
}

// mean is that of values; NaN for none.
func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// deviation is the standard deviation of a sample; 0 for fewer than two.
func deviation(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	m, sum := mean(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(xs)-1))
}
