package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Change is one number that differs between two documents.
type Change struct {
	What     string  `json:"what"`   // what was measured
	Before   Value   `json:"before"` // value in the first file; null unknown
	After    Value   `json:"after"`  // value in the second file; null unknown
	Ratio    Value   `json:"ratio"`  // second value divided by the first; null unknown
	Sure     bool    `json:"sure"`   // whether the difference is larger than the measuring error
	Worse    bool    `json:"worse"`  // whether it is worse by more than the threshold, and sure
	Relative float64 `json:"-"`
}

// Diff lists how b differs from a, in the order of the document. threshold is
// the relative change from which a sure change for the worse counts as one.
func Diff(a, b *Document, threshold float64) []Change {
	var out []Change
	add := func(what string, before, after Value, ia, ib Interval, higherIsWorse bool) {
		if !before.Known() || !after.Known() || before == 0 {
			return
		}
		c := Change{What: what, Before: before, After: after, Ratio: after / before}
		c.Relative = float64(c.Ratio) - 1
		c.Sure = ia.Apart(ib)
		if !ia.Known() || !ib.Known() {
			c.Sure = math.Abs(c.Relative) > 2*threshold
		}
		change := c.Relative
		if !higherIsWorse {
			change = -change
		}
		c.Worse = c.Sure && change > threshold
		out = append(out, c)
	}
	none := Interval{Unknown, Unknown}
	for _, pair := range [][2]*Latency{{a.Latency, b.Latency}, {a.CPULatency, b.CPULatency}} {
		x, y := pair[0], pair[1]
		if x == nil || y == nil {
			continue
		}
		for i, row := range x.Rows {
			for j, col := range x.Cols {
				p, q := slices.Index(y.Rows, row), slices.Index(y.Cols, col)
				if p >= 0 && q >= 0 {
					add(fmt.Sprintf("latency %s%d to node%d, ns", x.From, row, col), x.Median[i][j], y.Median[p][q],
						x.CI(i, j), y.CI(p, q), true)
				}
			}
		}
	}
	for _, x := range a.Bandwidth {
		for _, y := range b.Bandwidth {
			if x.Mix != y.Mix {
				continue
			}
			for i, row := range x.Rows {
				for j, col := range x.Cols {
					p, q := slices.Index(y.Rows, row), slices.Index(y.Cols, col)
					if p < 0 || q < 0 {
						continue
					}
					ia, ib := none, none
					if len(x.CI95) > i && len(y.CI95) > p {
						ia, ib = x.CI95[i][j], y.CI95[p][q]
					}
					add(fmt.Sprintf("bandwidth %s node%d to node%d, MB/s", x.Mix, row, col), x.Median[i][j],
						y.Median[p][q], ia, ib, false)
				}
			}
			add(fmt.Sprintf("bandwidth %s all nodes, MB/s", x.Mix), x.Total, y.Total, none, none, false)
		}
	}
	for _, x := range a.Loaded {
		for _, y := range b.Loaded {
			if x.From == y.From && x.To == y.To && x.Mix == y.Mix {
				add(fmt.Sprintf("latency at 75 %% load node%d to node%d, ns", x.From, x.To), x.At75, y.At75, none, none,
					true)
			}
		}
	}
	for _, x := range a.C2C {
		for _, y := range b.C2C {
			if x.LineHome == y.LineHome {
				add("core to core, median, cache line on "+LineOn(x.LineHome)+", ns", c2cMedian(x), c2cMedian(y), none,
					none, true)
			}
		}
	}
	return out
}

func c2cMedian(c C2C) Value {
	var of []float64
	for i := range c.Median {
		for j := range i {
			if v := c.Median.At(i, j); v.Known() {
				of = append(of, float64(v))
			}
		}
	}
	return Value(Median(of))
}

// Merge keeps of an older measurement of the same machine what the newer one
// did not measure. Of a machine with another fingerprint nothing is kept.
func Merge(older, newer *Document) *Document {
	if older == nil || older.Host.Fingerprint != newer.Host.Fingerprint {
		return newer
	}
	d := *newer
	d.Latency = cmp.Or(d.Latency, older.Latency)
	d.CPULatency = cmp.Or(d.CPULatency, older.CPULatency)
	if d.Bandwidth == nil {
		d.Bandwidth = older.Bandwidth
	}
	if d.Loaded == nil {
		d.Loaded = older.Loaded
	}
	if d.Levels == nil {
		d.Levels = older.Levels
	}
	if d.C2C == nil {
		d.C2C = older.C2C
	}
	if d.Pages == nil {
		d.Pages = older.Pages
	}
	// Sigma and the share thrown out belong to the latencies.
	if newer.Latency == nil && newer.Pages == nil && older.Run != nil && d.Run != nil {
		d.Run = new(*d.Run)
		d.Run.Sigma, d.Run.Rejected = older.Run.Sigma, older.Run.Rejected
	}
	return &d
}
