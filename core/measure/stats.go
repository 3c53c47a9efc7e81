package measure

import (
	"math"
	"slices"
)

// Median is the middle of xs, NaN for none.
func Median(xs []float64) float64 { return Quantile(xs, 0.5) }

// Quantile interpolates between order statistics; NaN for no values.
func Quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	return quantileSorted(slices.Sorted(slices.Values(xs)), q)
}

func quantileSorted(s []float64, q float64) float64 {
	at := q * float64(len(s)-1)
	low := int(at)
	if low+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[low] + (at-float64(low))*(s[low+1]-s[low])
}

// Sigma is a robust standard deviation: 1.4826 × the median absolute deviation.
func Sigma(xs []float64) float64 {
	m := Median(xs)
	dev := make([]float64, len(xs))
	for i, x := range xs {
		dev[i] = math.Abs(x - m)
	}
	return 1.4826 * Median(dev)
}

// Random is SplitMix64: small, seeded, the same on every machine. Core may not
// use math/rand, and the statistics of a file must come out the same each time.
type Random struct{ state uint64 }

// NewRandom starts a sequence.
func NewRandom(seed uint64) *Random { return &Random{seed} }

// Uint64 is the next of the sequence.
func (r *Random) Uint64() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Intn is a number from 0 to n-1.
func (r *Random) Intn(n int) int { return int((r.Uint64() >> 32) * uint64(n) >> 32) }

// Float64 is a number in [0, 1).
func (r *Random) Float64() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// Normal is a number of the standard normal distribution (Box and Muller).
func (r *Random) Normal() float64 {
	return math.Sqrt(-2*math.Log(1-r.Float64())) * math.Cos(2*math.Pi*r.Float64())
}

// Shuffle puts s in random order.
func Shuffle[T any](r *Random, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := r.Intn(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}

// resamples is enough for ends that move by less than a tenth of the interval.
const resamples = 600

// MedianInterval is a 95 % interval of the median of xs: the hull of a
// percentile bootstrap and of the order statistics that hold the median with
// at least 95 % (the bootstrap of a median of few samples is too narrow,
// because resamples take only the values there are).
func MedianInterval(xs []float64) Interval {
	n := len(xs)
	if n < 3 {
		return Interval{Unknown, Unknown}
	}
	s := slices.Sorted(slices.Values(xs))
	r := NewRandom(uint64(n))
	medians := make([]float64, resamples)
	pick := make([]float64, n)
	for i := range medians {
		for j := range pick {
			pick[j] = s[r.Intn(n)]
		}
		slices.Sort(pick)
		medians[i] = quantileSorted(pick, 0.5)
	}
	slices.Sort(medians)
	lo, hi := quantileSorted(medians, 0.025), quantileSorted(medians, 0.975)
	k := orderRank(n)
	return Interval{Value(min(lo, s[k])), Value(max(hi, s[n-1-k]))}
}

// OrderInterval is the part of MedianInterval that costs next to nothing:
// good enough to decide between two samples whether to go on.
func OrderInterval(xs []float64) Interval {
	if len(xs) < 3 {
		return Interval{Unknown, Unknown}
	}
	s := slices.Sorted(slices.Values(xs))
	k := orderRank(len(s))
	return Interval{Value(s[k]), Value(s[len(s)-1-k])}
}

// orderRank is the largest k for which [x(k), x(n-1-k)] (from 0) holds the
// median with probability ≥ 0.95, after the binomial distribution.
func orderRank(n int) int {
	p := math.Pow(0.5, float64(n)) // P(X = 0), X binomial(n, 1/2)
	tail, k := p, 0
	for i := 1; i < n/2; i++ {
		if 2*tail > 0.05 {
			break
		}
		k = i - 1
		p = p * float64(n-i+1) / float64(i)
		tail += p
	}
	if 2*tail <= 0.05 {
		k = max(k, n/2-1)
	}
	return k
}

// Summary is what is printed of a cell.
type Summary struct {
	Median, Best, Sigma Value // Sigma relative to the median
	CI                  Interval
}

// noisySigma is the relative spread from which samples count as disturbed. A
// quiet machine has 1 to 2 % (research/measurement.md §2.1).
const noisySigma = 0.03

// Summarize makes a cell's numbers. Disturbance only ever adds time, so when
// samples are spread or many were thrown out, the middle of what is left may
// lie above the truth: the interval then reaches down to the best sample.
func Summarize(xs []float64, rejected int) Summary {
	if len(xs) == 0 {
		return Summary{Unknown, Unknown, Unknown, Interval{Unknown, Unknown}}
	}
	m := Median(xs)
	s := Summary{Value(m), Value(Quantile(xs, 0.05)), Value(Sigma(xs) / m), MedianInterval(xs)}
	low := Quantile(xs, 0)
	stray := 0
	for _, x := range xs {
		if x > m*(1+max(0.02, 4*float64(s.Sigma))) {
			stray++
		}
	}
	disturbed := float64(s.Sigma) > noisySigma || rejected*4 > len(xs) || stray*20 > len(xs)
	if disturbed && s.CI.Known() {
		s.CI[0] = min(s.CI[0], Value(low))
	}
	return s
}
