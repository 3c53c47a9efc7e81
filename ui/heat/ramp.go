package heat

import (
	"fmt"
	"math"
)

// rgb is a colour.
type rgb struct{ r, g, b uint8 }

// stops of the ramp: dark blue, teal, green, yellow, after the idea of viridis:
// lightness rises evenly, hue never turns back.
var stops = []rgb{{52, 38, 92}, {49, 84, 130}, {36, 125, 132}, {56, 165, 108}, {150, 200, 60}, {245, 225, 60}}

// topRatio is where the ramp ends: a memory this many times as far as local
// is as bright as it gets.
const topRatio = 3.0

// ramp is the colour of a ratio to local: 1 dark, 3 and more bright.
func ramp(ratio float64) rgb {
	if math.IsNaN(ratio) {
		return rgb{96, 96, 96}
	}
	x := math.Log(max(1, ratio)) / math.Log(topRatio)
	at := min(x, 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	f := at - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + f*(float64(b)-float64(a)))) }
	a, b := stops[i], stops[i+1]
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

func (c rgb) ink() string {
	if c.light() {
		return "#000000"
	}
	return "#ffffff"
}

// xterm is the nearest of the 6 × 6 × 6 cube of 256 colour terminals.
func (c rgb) xterm() int {
	level := func(v uint8) int {
		best, at := 1<<30, 0
		for i, l := range []int{0, 95, 135, 175, 215, 255} {
			if d := (int(v) - l) * (int(v) - l); d < best {
				best, at = d, i
			}
		}
		return at
	}
	return 16 + 36*level(c.r) + 6*level(c.g) + level(c.b)
}
