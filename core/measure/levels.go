package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// LevelSizes are working sets from one page to four caches or the buffer, in
// steps of about √2.
func LevelSizes(buffer, llc int64) []int64 {
	var out []int64
	for k := 4 << 10; int64(k) <= min(buffer, max(4*llc, 64<<20)); k *= 2 {
		out = append(out, roundSize(int64(k)))
		if half := roundSize(int64(k) * 1414 / 1000); half > out[len(out)-1] &&
			half <= min(buffer, max(4*llc, 64<<20)) {
			out = append(out, half)
		}
	}
	return slices.Compact(out)
}

func roundSize(n int64) int64 {
	if n > pageSize {
		return n / pageSize * pageSize
	}
	return max(4<<10, n/(4<<10)*(4<<10))
}

// Knees finds the steps of the curve: the largest working set before latency leaves
// a plateau. The last plateau is memory and has no knee. NameKnees names them.
func Knees(points []LevelPoint) []Knee {
	// A step of √2 past the end of a cache adds a third or more; inside one it
	// adds some percent. Where intervals are known, the step must be clear of them.
	const leaves, settles = 1.3, 1.12
	left := func(from, to LevelPoint) bool {
		low, high := to.NS, from.NS
		if from.CI95.Known() && to.CI95.Known() {
			low, high = to.CI95[0], max(from.CI95[1], from.NS)
		}
		return float64(to.NS) >= leaves*float64(from.NS) && low > high*1.1
	}
	var out []Knee
	for i := 0; i < len(points)-1; {
		j := i
		for j+1 < len(points) && !left(points[i], points[j+1]) {
			j++
		}
		if j+1 >= len(points) {
			break
		}
		if j > i {
			out = append(out, Knee{Bytes: points[j].Bytes, NS: points[i].NS})
		}
		for i = j + 1; i+1 < len(points) && float64(points[i+1].NS) > float64(points[i].NS)*settles; i++ {
		}
	}
	return out
}

// NameKnees names each step by the cache that ends there, and else by its number.
// Sizes are a factor of √2 apart, and other work takes a part of a cache: a step from
// half the size of a cache to √2 of it is the end of that cache. Each cache ends once,
// at the step nearest to its size.
func (l *Levels) NameKnees() {
	for i := range l.Knees {
		l.Knees[i].Level = fmt.Sprintf("step %d", i+1)
	}
	for _, c := range l.Caches {
		best, nearest := -1, math.Ln2*1.01
		for i, k := range l.Knees {
			off := math.Log(float64(c.Bytes) / float64(k.Bytes))
			if off > -math.Ln2/2*1.01 && math.Abs(off) < nearest && strings.HasPrefix(k.Level, "step ") {
				best, nearest = i, math.Abs(off)
			}
		}
		if best >= 0 {
			l.Knees[best].Level = c.Name
		}
	}
}

// FinishLoaded derives peak, knee and the latencies at shares of the peak from the
// points without a flag. Where full load is not among them the peak was not reached,
// and nothing is derived.
func FinishLoaded(l *Loaded) {
	l.Peak = Unknown
	l.Knee = Unknown
	l.At50 = Unknown
	l.At75 = Unknown
	l.At90 = Unknown
	points := slices.DeleteFunc(slices.Clone(l.Points),
		func(p LoadedPoint) bool { return !p.NS.Known() || !p.MBps.Known() || p.Flag != "" })
	starved := slices.ContainsFunc(l.Points, func(p LoadedPoint) bool { return p.Gap == 0 && p.Flag != "" })
	if len(points) < 3 || starved {
		return
	}
	slices.SortStableFunc(points, func(a, b LoadedPoint) int {
		if a.MBps < b.MBps {
			return -1
		}
		return 1
	})
	low, high := points[0].NS, points[0].NS
	for _, p := range points {
		low, high = min(low, p.NS), max(high, p.NS)
	}
	l.Peak = points[len(points)-1].MBps
	at := func(share float64) Value {
		x := Value(share) * l.Peak
		for i := 1; i < len(points); i++ {
			if a, b := points[i-1], points[i]; a.MBps <= x && x <= b.MBps && b.MBps > a.MBps {
				return a.NS + (b.NS-a.NS)*(x-a.MBps)/(b.MBps-a.MBps)
			}
		}
		return Unknown
	}
	l.At50 = at(0.5)
	l.At75 = at(0.75)
	l.At90 = at(0.9)
	// The knee is where the curve is farthest below the line from idle to peak.
	best := 0.0
	for _, p := range points {
		if gain := float64(p.MBps/l.Peak) - float64((p.NS-low)/max(high-low, 1)); gain > best {
			best, l.Knee = gain, p.MBps
		}
	}
}

// Gaps are the pauses of a loaded curve, from none at all (-1) to full load (0),
// in iterations of the spin loop between bursts of 4 KiB.
func Gaps(points int) []int {
	out := []int{-1}
	if points < 3 {
		points = 3
	}
	for i := range points - 2 {
		// Geometric from 20,000 down to 20.
		f := float64(i) / float64(max(1, points-3))
		g := 20_000.0
		for k := 0.0; k < f*10; k += 0.1 {
			g /= 1.0715193 // 10^(3/100): a hundred steps for three decades
		}
		out = append(out, int(g))
	}
	return append(out, 0)
}
