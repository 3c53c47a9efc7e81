package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// confidence is that of all intervals.
const confidence = 0.95

// draws of a bootstrap: the ends of an interval then differ by seed in the third digit.
const draws = 10000

// interval is an estimate and where it lies with the given confidence.
type interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// median of any numbers; NaN of none.
func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// change is how far the median of b lies above that of a, as a share of it (0.05 is 5 %),
// with an interval by the percentile bootstrap: runs of both are drawn again with
// replacement (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3).
// The same seed gives the same interval.
func change(a, b []float64, seed uint64) interval {
	return bootstrap(seed, func(draw func([]float64) []float64) float64 { return median(draw(b))/median(draw(a)) - 1 })
}

// middle is a median with its interval.
func middle(x []float64, seed uint64) interval {
	return bootstrap(seed, func(draw func([]float64) []float64) float64 { return median(draw(x)) })
}

func bootstrap(seed uint64, f func(draw func([]float64) []float64) float64) interval {
	r := rand.New(rand.NewPCG(seed, 0))
	all := make([]float64, draws)
	for i := range all {
		all[i] = f(func(x []float64) []float64 {
			out := make([]float64, len(x))
			for k := range out {
				out[k] = x[r.IntN(len(x))]
			}
			return out
		})
	}
	slices.Sort(all)
	cut := int((1 - confidence) / 2 * draws)
	return interval{Value: f(func(x []float64) []float64 { return x }), Low: all[cut], High: all[draws-1-cut]}
}

// order is which case runs when: in each round every case once, in an order drawn by seed,
// so that what changes on the machine in the hour meets all of them alike.
func order(cases []string, rounds int, seed uint64) (all []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range rounds {
		round := slices.Clone(cases)
		r.Shuffle(len(round), func(i, k int) { round[i], round[k] = round[k], round[i] })
		all = append(all, round...)
	}
	return all
}

// What protection is asked to be: online work does not feel batch work, on a busy machine.
const (
	mostChange = 0.05 // of the 99th percentile, the upper end of its interval
	leastBusy  = 0.60 // of the experiment's CPUs
)

// passes reports whether a case protects.
func passes(p99 interval, busy float64) bool { return p99.High < mostChange && busy > leastBusy }
