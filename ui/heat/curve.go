package heat

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/view"
)

// Curve is lines over axes.
type Curve struct {
	Title, X, Y string
	LogX, LogY  bool
	XName       func(float64) string
	Lines       []Line
}

// Line is one curve.
type Line struct {
	Name   string
	Points [][2]float64
	Marks  []Mark
}

// Mark is a named place on a curve.
type Mark struct {
	X    float64
	Name string
}

// Colours of lines that stay apart for the colour-blind (Okabe and Ito), with
// a dash of their own each.
var lineColours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"}
var lineDashes = []string{"", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2"}

// LoadedCurve is latency over bandwidth.
func LoadedCurve(all []measure.Loaded) Curve {
	c := Curve{Title: "latency under load", X: "GB/s moved by the load", Y: "ns", XName: func(v float64) string { return trim(v) }}
	for _, l := range all {
		line := Line{Name: fmt.Sprintf("node%d to node%d, mix %s, %d CPUs of load", l.From, l.To, l.Mix, l.Load)}
		for _, p := range l.Points {
			if p.NS.Known() && p.MBps.Known() && p.Flag == "" {
				line.Points = append(line.Points, [2]float64{float64(p.MBps) / 1000, float64(p.NS)})
			}
		}
		slices.SortFunc(line.Points, func(a, b [2]float64) int {
			if a[0] < b[0] {
				return -1
			}
			return 1
		})
		if l.Knee.Known() {
			line.Marks = append(line.Marks, Mark{float64(l.Knee) / 1000, "knee"})
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// LevelsCurve is latency over working set.
func LevelsCurve(all []measure.Levels) Curve {
	c := Curve{Title: "latency by working set", X: "working set", Y: "ns", LogX: true, LogY: true, XName: func(v float64) string { return words.Bytes(int64(v)) }}
	for _, l := range all {
		line := Line{Name: fmt.Sprintf("CPU %d on node%d", l.CPU, l.Node)}
		for _, p := range l.Points {
			if p.NS.Known() {
				line.Points = append(line.Points, [2]float64{float64(p.Bytes), float64(p.NS)})
			}
		}
		for _, k := range l.Knees {
			line.Marks = append(line.Marks, Mark{float64(k.Bytes), k.Level + " " + words.Bytes(k.Bytes)})
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

func trim(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if v < 10 {
		return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// SVG draws a curve.
func (c Curve) SVG() string {
	const width, left, right, top, plotH = 760.0, 64.0, 24.0, 44.0, 300.0
	height := top + plotH + 56 + 20*float64(len(c.Lines))
	lowX, highX, lowY, highY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			lowX, highX = min(lowX, p[0]), max(highX, p[0])
			lowY, highY = min(lowY, p[1]), max(highY, p[1])
		}
	}
	var b strings.Builder
	open(&b, width, height, c.Title)
	text(&b, margin, 18, "start", "#111111", "bold", c.Title)
	if math.IsInf(lowX, 0) {
		text(&b, margin, 60, "start", "#555555", "normal", "no points")
		b.WriteString("</svg>\n")
		return b.String()
	}
	if !c.LogX {
		lowX = 0
	}
	if !c.LogY {
		lowY = 0
		highY *= 1.05
	} else {
		lowY, highY = lowY/1.3, highY*1.3 // room for the ends and for names
	}
	px := scale(lowX, highX, left, width-right, c.LogX)
	py := scale(lowY, highY, top+plotH, top, c.LogY)
	for _, v := range ticks(lowX, highX, c.LogX, 2) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#e4e4e4"/>`+"\n", px(v), top, px(v), top+plotH)
		text(&b, px(v), top+plotH+16, "middle", "#333333", "normal", c.XName(v))
	}
	for _, v := range ticks(lowY, highY, c.LogY, 1) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#e4e4e4"/>`+"\n", left, py(v), width-right, py(v))
		text(&b, left-6, py(v)+4, "end", "#333333", "normal", trim(v))
	}
	text(&b, (left+width-right)/2, top+plotH+34, "middle", "#333333", "normal", c.X)
	text(&b, margin, top-8, "start", "#333333", "normal", c.Y)
	for i, l := range c.Lines {
		colour, dash := lineColours[i%len(lineColours)], lineDashes[i%len(lineDashes)]
		var path []string
		for _, p := range l.Points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", px(p[0]), py(p[1])))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", strings.Join(path, " "), colour, dash)
		for _, p := range l.Points {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s</title></circle>`+"\n", px(p[0]), py(p[1]), colour,
				view.Markup(fmt.Sprintf("%s: %s %s", c.XName(p[0]), trim(p[1]), c.Y)))
		}
		for _, m := range l.Marks {
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="3 3"/>`+"\n", px(m.X), top, px(m.X), top+plotH, colour)
			text(&b, px(m.X)+4, top+12+14*float64(i), "start", colour, "normal", m.Name)
		}
		y := top + plotH + 56 + 20*float64(i)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", left, y-4, left+36, y-4, colour, dash)
		text(&b, left+44, y, "start", "#333333", "normal", l.Name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func scale(low, high, from, to float64, log bool) func(float64) float64 {
	f := func(v float64) float64 { return v }
	if log {
		f = math.Log
	}
	a, b := f(low), f(high)
	if b <= a {
		b = a + 1
	}
	return func(v float64) float64 { return from + (f(v)-a)/(b-a)*(to-from) }
}

// ticks are round values; of a logarithmic axis powers of 4 (sizes) or 1-2-5.
func ticks(low, high float64, log bool, axis int) []float64 {
	var out []float64
	switch {
	case log && axis == 2:
		for v := math.Pow(2, math.Ceil(math.Log2(low))); v <= high*1.001; v *= 4 {
			out = append(out, v)
		}
	case log:
		for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= low*0.999 && v <= high*1.001 {
					out = append(out, v)
				}
			}
		}
	default:
		raw := (high - low) / 6
		if raw <= 0 {
			return []float64{low}
		}
		e := math.Pow(10, math.Floor(math.Log10(raw)))
		step := 10 * e
		for _, m := range []float64{1, 2, 5} {
			if m*e >= raw {
				step = m * e
				break
			}
		}
		for v := math.Ceil(low/step) * step; v <= high*1.0001; v += step {
			out = append(out, v)
		}
	}
	return out
}
