package demand

import "math"

// burstsBy is the standard deviations by which the threads that want to run at one moment exceed their mean: in one
// moment of twenty they are more (normal distribution).
const burstsBy = 1.64

// tiny keeps rounding from counting.
const tiny = 1e-5

// manyThreads stands for threads whose number is not known. It is finite: what was added can be taken away.
const manyThreads = 1 << 20

// Load is what shared work wants of some CPUs. Threads sleep and wake independently of each other, so that at times
// more of them want to run than on average. Of many such threads those times are rarer.
type Load struct {
	Busy   float64 // CPUs that it keeps busy, on average
	Varies float64 // variance of the number of threads that want to run
	Most   float64 // threads that can want to run
}

// LoadOf returns the load of work that keeps busy CPUs busy with so many threads; 0 where they are not known. Work that
// keeps more CPUs busy than it has threads starts and ends them all the time: its number of threads says nothing.
func LoadOf(busy float64, threads int) Load {
	if threads <= 0 || Fills*busy > float64(threads) {
		return Load{Busy: busy, Varies: busy, Most: manyThreads}
	}
	most := max(busy, float64(threads))
	return Load{Busy: busy, Varies: busy * (1 - busy/max(most, tiny)), Most: most}
}

// AtMost returns the load of work that never wants more than so many CPUs.
func AtMost(cpus float64) Load { return Load{Busy: cpus, Most: cpus} }

// Plus returns the load of both together.
func (l Load) Plus(m Load) Load {
	return Load{Busy: l.Busy + m.Busy, Varies: l.Varies + m.Varies, Most: l.Most + m.Most}
}

// Minus returns the load without a part of it.
func (l Load) Minus(m Load) Load {
	return Load{Busy: max(0, l.Busy-m.Busy), Varies: max(0, l.Varies-m.Varies), Most: max(0, l.Most-m.Most)}
}

// Part returns a part of the load, 0 to 1.
func (l Load) Part(share float64) Load {
	if share <= 0 {
		return Load{}
	}
	return Load{Busy: l.Busy * share, Varies: l.Varies * share, Most: l.Most * share}
}

// Wants returns the CPUs that suffice in all moments but one of twenty.
func (l Load) Wants() float64 {
	return min(l.Busy+burstsBy*math.Sqrt(l.Varies), l.Most)
}
