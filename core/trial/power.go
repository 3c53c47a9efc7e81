package trial

import (
	"math"
	"slices"
)

// Power is the chance with which a trial finds an effect that is there, at Level.
// noise is the standard deviation of the difference of one block, on the same scale as change.
func Power(noise, change float64, blocks int, level float64) float64 {
	if blocks < Least(1) || noise < 0 {
		return 0
	}
	if noise == 0 {
		return 1
	}
	// The non-central t distribution by its normal approximation (Abramowitz and Stegun 26.7.10).
	// The sign-flip test has the power of a t test to within a point where noise is not extreme.
	n := float64(blocks)
	free := n - 1
	if blocks <= fewBlocks { // few subsets have no part of exactly that size
		all := math.Exp2(n)
		level = 2 * math.Floor(level/2*all) / all
	}
	noise *= slope
	t := tQuantile(1-level/2, free)
	z := (t*(1-1/(4*free)) - math.Abs(change)/noise*math.Sqrt(n)) / math.Sqrt(1+t*t/(2*free))
	return normal(-z)
}

// slope is what taking off the slope within a block adds to its noise: 1/32 of the variance in
// the middle, 1/4 in the first and last block of two arms.
const slope = 1.03

// Wanted is the power that a dry run plans for.
const Wanted = 0.8

// Blocks is the fewest blocks with which an effect is found with the power Wanted; 0 where
// more than 10,000 were needed.
func Blocks(noise, change, level float64) int {
	least := Least(int(math.Round(Level / level)))
	low, high := least, 10001
	for low < high {
		mid := (low + high) / 2
		if Power(noise, change, mid, level) >= Wanted {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low > 10000 {
		return 0
	}
	return low
}

// Need is how long a trial must run to find an effect.
type Need struct {
	Change  float64 `json:"change"`  // effect to be found: 0.05 is 5 %
	Blocks  int     `json:"blocks"`  // number of blocks; 0 when more than 10,000
	Seconds float64 `json:"seconds"` // duration of such a trial, s; 0 when blocks is
}

// Effects is those that a dry run plans for.
var Effects = []float64{0.02, 0.05, 0.10}

// Needs is how long a trial as planned must run to find each of Effects, with the noise of a
// block and so many comparisons.
func Needs(p *Plan, noise float64, scale Scale, of float64, comparisons int) []Need {
	level := Level / float64(max(1, comparisons))
	var out []Need
	for _, x := range Effects {
		change := x
		switch scale {
		case Relative:
			change = math.Log1p(x)
		case Absolute:
			change = x * math.Abs(of)
		}
		n := Need{Change: x}
		if n.Blocks = Blocks(noise, change, level); n.Blocks > 0 {
			longer := *p
			longer.Blocks = n.Blocks
			n.Seconds = longer.Duration().Seconds()
		}
		out = append(out, n)
	}
	return out
}

// Noise estimates the standard deviation of the difference of one block from readings without
// any switching. Readings shorter than six periods give the noise of shorter periods, which is
// carried on to the longer ones as it fell among the shorter. ok is false with too few.
func Noise(m *Metric, readings []Reading, p *Plan) (noise float64, scale Scale, of float64, ok bool) {
	if len(readings) < 12 {
		return 0, "", 0, false
	}
	scale = Relative
	if m.Points {
		scale = InPoints
	}
	values := make([]float64, len(readings))
	for i, r := range readings {
		values[i] = r.Value
		if r.Value <= 0 && scale == Relative {
			scale = Absolute
		}
	}
	of = mean(values)
	period, apart := p.Period.Seconds(), (p.Period + p.Washout).Seconds()
	long := readings[len(readings)-1].At - readings[0].At
	shrink := min(1, long/(6*apart))
	full := gaps(readings, period*shrink, apart*shrink, scale)
	if math.IsNaN(full) {
		return 0, "", 0, false
	}
	if shrink < 1 {
		half := gaps(readings, period*shrink/2, apart*shrink/2, scale)
		fall := 0.0 // the variance falls with the length to this power, 1 where readings are independent
		if full > 0 && half > full {
			fall = min(1, math.Log2(half/full))
		}
		full *= math.Pow(shrink, fall)
	}
	return math.Sqrt(full), scale, of, true
}

// gaps is the variance of the difference between the means of two windows, one after the other,
// without the drift over three of them. NaN with too few readings.
func gaps(readings []Reading, length, apart float64, scale Scale) float64 {
	begin, end := readings[0].At, readings[len(readings)-1].At
	window := func(from float64) (float64, bool) {
		i, _ := slices.BinarySearchFunc(readings, from, func(r Reading, at float64) int { return compare(r.At, at) })
		sum, n := 0.0, 0
		for ; i < len(readings) && readings[i].At < from+length; i++ {
			sum += readings[i].Value
			n++
		}
		if scale == Relative {
			return math.Log(sum / float64(n)), n > 0
		}
		return sum / float64(n), n > 0
	}
	sum, n := 0.0, 0
	for from := begin; from+3*apart <= end+apart-length; from += apart / 4 {
		a, okA := window(from)
		b, okB := window(from + apart)
		c, okC := window(from + 2*apart)
		if okA && okB && okC {
			// A straight line is not in it. Of independent means it has 6 times the variance of one;
			// their difference has twice.
			gap := a - 2*b + c
			sum += gap * gap / 3
			n++
		}
	}
	if n < 4 {
		return math.NaN()
	}
	return sum / float64(n)
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// normal is the standard normal distribution.
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// tQuantile is a quantile of Student's t distribution (Abramowitz and Stegun 26.7.5), to 0.5 %
// from 5 degrees of freedom on.
func tQuantile(p, free float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	z3 := z * z * z
	z5 := math.Pow(z, 5)
	z7 := math.Pow(z, 7)
	return z + (z3+z)/(4*free) + (5*z5+16*z3+3*z)/(96*free*free) + (3*z7+19*z5+17*z3-15*z)/(384*free*free*free)
}
