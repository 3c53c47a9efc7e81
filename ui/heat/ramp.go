package heat

import (
	"fmt"
	"math"
)

// rgb is a colour.
type rgb struct{ r, g, b uint8 }

// ramp is colours from as good as it gets to bad, with the words for what they mean.
// All go from pale to dark: lightness falls evenly, so that they read for the colour-blind
// and in grey, and what is slow never looks harmless.
type ramp struct {
	name  string // of the scale
	stops []rgb
	ticks [4]string // at 1, 1.5, 2, and 3 times and more
}

// After the idea of ColorBrewer's YlOrRd and BuPu.
var (
	warm = []rgb{{255, 247, 205}, {254, 217, 118}, {253, 155, 66}, {227, 74, 42}, {150, 16, 46}, {84, 4, 38}}
	cool = []rgb{{237, 248, 251}, {179, 205, 227}, {140, 150, 198}, {136, 86, 167}, {118, 20, 115}, {66, 0, 66}}

	latencyRamp   = ramp{"latency, times local", warm, [4]string{"1 (local)", "1.5", "2", "3 and more"}}
	pairRamp      = ramp{"latency, times the fastest pair", warm, [4]string{"1", "1.5", "2", "3 and more"}}
	bandwidthRamp = ramp{"bandwidth, share of local", cool, [4]string{"as local", "2/3", "1/2", "1/3 and less"}}
)

// topRatio is where a ramp ends: what is this many times as slow as the best is as dark as it gets.
const topRatio = 3.0

// along is how far a ratio lies along a ramp, 0 to 1.
func along(ratio float64) float64 {
	return min(1, math.Log(max(1, ratio))/math.Log(topRatio))
}

// at is the colour of a ratio: 1 and less pale, 3 and more dark.
func (r ramp) at(ratio float64) rgb {
	at := along(ratio) * float64(len(r.stops)-1)
	i := min(int(at), len(r.stops)-2)
	f := at - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + f*(float64(b)-float64(a)))) }
	a, b := r.stops[i], r.stops[i+1]
	return rgb{mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)}
}

func (c rgb) hex() string { return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b) }

// light tells whether dark text is read better on c (relative luminance, WCAG 2).
func (c rgb) light() bool {
	lin := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*lin(c.r)+0.7152*lin(c.g)+0.0722*lin(c.b) > 0.18
}

// levels are the six of each colour in a 256 colour terminal.
var levels = []int{0, 95, 135, 175, 215, 255}

// xterm is the nearest of the 6 × 6 × 6 cube of 256 colour terminals, and what that looks like.
func (c rgb) xterm() (int, rgb) {
	nearest := func(v uint8) int {
		at := 0
		for i, l := range levels {
			if abs(int(v)-l) < abs(int(v)-levels[at]) {
				at = i
			}
		}
		return at
	}
	r := nearest(c.r)
	g := nearest(c.g)
	b := nearest(c.b)
	return 16 + 36*r + 6*g + b, rgb{uint8(levels[r]), uint8(levels[g]), uint8(levels[b])}
}

func abs(n int) int { return max(n, -n) }
