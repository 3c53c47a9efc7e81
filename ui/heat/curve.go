package heat

import (
	"cmp"
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
	Title, X, Y string // X and Y are the titles of the axes, with the unit
	LogX, LogY  bool
	XName       func(float64) string
	Lines       []Line
	Foot        []string
	// Smooth lines have no dot at each point. A point whose Y is NaN breaks a line.
	Smooth bool
	Top    float64 // end of a Y axis that is not logarithmic; 0: by the points
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

// Lines have colours and dashes of their own; see style.
const lineColours = 7

var lineDashes = [lineColours]string{"", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2"}

// LoadedCurve is latency over bandwidth.
func LoadedCurve(all []measure.Loaded) Curve {
	c := Curve{Title: "latency under load", X: "bandwidth of the load, GB/s", Y: "read latency, ns",
		XName: func(v float64) string { return trim(v) }}
	for _, l := range all {
		line := Line{Name: LoadedName(l)}
		for _, p := range l.Points {
			if p.NS.Known() && p.MBps.Known() && p.Flag == "" {
				line.Points = append(line.Points, [2]float64{float64(p.MBps) / 1000, float64(p.NS)})
			}
		}
		slices.SortStableFunc(line.Points, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
		if l.Knee.Known() {
			line.Marks = append(line.Marks, Mark{float64(l.Knee) / 1000, "knee"})
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// LoadedName says what was read under which load.
func LoadedName(l measure.Loaded) string {
	return fmt.Sprintf("CPUs on node %d to memory on node %d, %s, %s of load", l.From, l.To, mixName(l.Mix),
		words.Count(l.Load, "CPU"))
}

// LevelsCurve is latency over working set.
func LevelsCurve(all []measure.Levels) Curve {
	c := Curve{Title: "latency by buffer size", X: "size of the buffer that is read", Y: "read latency, ns", LogX: true,
		LogY: true, XName: func(v float64) string { return words.Bytes(int64(v)) }}
	for _, l := range all {
		line := Line{Name: fmt.Sprintf("CPU %d, memory on node %d", l.CPU, l.Node)}
		for _, p := range l.Points {
			if p.NS.Known() {
				line.Points = append(line.Points, [2]float64{float64(p.Bytes), float64(p.NS)})
			}
		}
		for _, k := range l.Knees {
			line.Marks = append(line.Marks, Mark{float64(k.Bytes), l.KneeName(k)})
		}
		if foot := cachesFoot(l); foot != "" {
			c.Foot = append(c.Foot, foot)
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

// cachesFoot tells the caches of the CPU, and those at whose end no step was found.
func cachesFoot(l measure.Levels) string {
	var have, missed []string
	for _, c := range l.Caches {
		have = append(have, c.Name+" "+words.Bytes(c.Bytes))
		if !slices.ContainsFunc(l.Knees, func(k measure.Knee) bool { return k.Level == c.Name }) {
			missed = append(missed, c.Name)
		}
	}
	if len(have) == 0 {
		return "the kernel shows no caches of this CPU: steps have numbers"
	}
	text := fmt.Sprintf("caches of CPU %d by sysfs: %s", l.CPU, words.List(have))
	if len(missed) > 0 {
		text += "; no step was found at the end of " + words.List(missed)
	}
	return text
}

// SVG is the curve as a file of its own, with a caption: machine, date, program.
func (c Curve) SVG(caption string) string { return c.draw(caption).file() }

func (c Curve) draw(caption string) *drawing {
	const (
		width = 2 * columnWidth
		right = 28.0
		plotH = 280.0
	)
	c.Lines = c.drawable()
	lowX, highX, lowY, highY := c.bounds()
	d := &drawing{title: c.Title, width: width}
	y := d.head(caption)
	if math.IsInf(lowY, 0) {
		d.height = d.wrapped(y, textSize, "dim", "no points") + margin
		return d
	}
	if !c.LogX {
		lowX = 0
	}
	if !c.LogY {
		lowY = 0
		highY *= 1.05
		if c.Top > 0 {
			highY = c.Top
		}
	} else {
		lowY, highY = lowY/1.3, highY*1.3
	}
	yTicks, tickW := ticks(lowY, highY, c.LogY, 1), 0.0
	for _, v := range yTicks {
		tickW = max(tickW, textWidth(trim(v), textSize))
	}
	left := margin + textSize*lineSpace + 4 + tickW + 8
	px := scale(lowX, highX, left, width-right, c.LogX)
	top := d.marks(y, c.Lines, px)
	bottom := top + plotH
	py := scale(lowY, highY, bottom, top, c.LogY)
	line := func(class string, x1, y1, x2, y2 float64) {
		fmt.Fprintf(d, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
	}
	// A tick whose number has no room has a line only.
	free := 0.0
	for _, v := range ticks(lowX, highX, c.LogX, 2) {
		line("grid", px(v), top, px(v), bottom)
		name := c.XName(v)
		if w := textWidth(name, textSize); px(v)-w/2 >= free && px(v)+w/2 <= width {
			d.text(px(v), bottom+textSize+4, textSize, "middle", "", name)
			free = px(v) + w/2 + 6
		}
	}
	free = math.Inf(1)
	for _, v := range yTicks {
		line("grid", left, py(v), width-right, py(v))
		if py(v)+textSize*0.7 <= free {
			d.text(left-6, py(v)+textSize*0.35, textSize, "end", "", trim(v))
			free = py(v) - textSize*0.7
		}
	}
	d.text((left+width-right)/2, bottom+2*textSize*lineSpace, textSize, "middle", "dim", c.X)
	fmt.Fprintf(d, `<g transform="translate(%.1f %.1f) rotate(-90)">`, margin+textSize, (top+bottom)/2)
	d.text(0, 0, textSize, "middle", "dim", c.Y)
	d.WriteString("</g>\n")
	for i, l := range c.Lines {
		i %= lineColours
		for _, part := range whole(l.Points) {
			var path []string
			for _, p := range part {
				path = append(path, fmt.Sprintf("%.1f,%.1f", px(p[0]), py(p[1])))
			}
			fmt.Fprintf(d, `<polyline class="l%d" points="%s" fill="none" stroke-width="2" stroke-dasharray="%s"/>`+
				"\n", i, strings.Join(path, " "), lineDashes[i])
			if c.Smooth {
				continue
			}
			for _, p := range part {
				fmt.Fprintf(d, `<circle class="f%d" cx="%.1f" cy="%.1f" r="3"><title>%s</title></circle>`+"\n", i,
					px(p[0]), py(p[1]),
					view.Markup(fmt.Sprintf("%s: %s: %s; %s: %s", l.Name, c.X, c.XName(p[0]), c.Y, trim(p[1]))))
			}
		}
		for _, m := range l.Marks {
			line(fmt.Sprintf(`l%d" stroke-dasharray="3 3`, i), px(m.X), top, px(m.X), bottom)
		}
	}
	y = bottom + 3*textSize*lineSpace
	for i, l := range c.Lines {
		i %= lineColours
		fmt.Fprintf(d,
			`<line class="l%d" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
			i, margin, y+textSize*0.65, margin+36, y+textSize*0.65, lineDashes[i])
		y = d.beside(margin+44, y, textSize, "", l.Name)
	}
	for _, f := range c.Foot {
		y = d.wrapped(y, smallSize, "dim", f)
	}
	d.height = y + margin/2
	return d
}

// drawable is the lines without their points and marks at 0 of a logarithmic axis.
func (c Curve) drawable() []Line {
	lines := slices.Clone(c.Lines)
	for i := range lines {
		l := &lines[i]
		l.Points = slices.DeleteFunc(slices.Clone(l.Points), func(p [2]float64) bool {
			return (c.LogX && p[0] <= 0) || (c.LogY && p[1] <= 0)
		})
		l.Marks = slices.DeleteFunc(slices.Clone(l.Marks), func(m Mark) bool { return c.LogX && m.X <= 0 })
	}
	return lines
}

// bounds is the least and the greatest of all points; infinite without any.
func (c Curve) bounds() (lowX, highX, lowY, highY float64) {
	lowX = math.Inf(1)
	highX = math.Inf(-1)
	lowY = math.Inf(1)
	highY = math.Inf(-1)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			lowX = min(lowX, p[0])
			highX = max(highX, p[0])
			if !math.IsNaN(p[1]) {
				lowY = min(lowY, p[1])
				highY = max(highY, p[1])
			}
		}
	}
	return lowX, highX, lowY, highY
}

// whole is the parts of a line between the points that are not known.
func whole(points [][2]float64) (parts [][][2]float64) {
	from := 0
	for i := range len(points) + 1 {
		if i < len(points) && !math.IsNaN(points[i][1]) {
			continue
		}
		if i > from {
			parts = append(parts, points[from:i])
		}
		from = i + 1
	}
	return parts
}

// Inline is the curve as a part of a Page.
func (c Curve) Inline() string { return c.draw("").inside(0, 0) }

// marks writes the names of the marked places above the plot, which begins at the y that
// it returns. From right to left, each goes into the lowest row that is free, with a line
// down to its place: no name lies on another or on the line of one to its right.
func (d *drawing) marks(y float64, lines []Line, px func(float64) float64) float64 {
	type label struct {
		x, from, to float64
		row, line   int
		name        string
	}
	var all []label
	for i, l := range lines {
		for _, m := range l.Marks {
			w := textWidth(m.Name, smallSize)
			from := max(margin, min(px(m.X)+4, d.width-margin-w))
			all = append(all, label{px(m.X), from, from + w, 0, i % lineColours, m.Name})
		}
	}
	slices.SortStableFunc(all, func(a, b label) int { return cmp.Compare(b.x, a.x) })
	rows := 0
	for i := range all {
		for slices.ContainsFunc(all[:i], func(o label) bool {
			l := all[i]
			return (o.row == l.row && o.from < l.to+4 && l.from < o.to+4) ||
				(o.row >= l.row && l.from < o.x && o.x < l.to)
		}) {
			all[i].row++
		}
		rows = max(rows, all[i].row+1)
	}
	const rowH = smallSize * lineSpace
	top := y + float64(rows)*rowH + 4
	for _, l := range all {
		base := top - 4 - float64(l.row)*rowH
		fmt.Fprintf(d, `<line class="l%d" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke-dasharray="3 3"/>`+"\n",
			l.line, l.x, base-smallSize*0.8, l.x, top)
		d.text(l.from, base, smallSize, "start", fmt.Sprintf("halo f%d", l.line), l.name)
	}
	return top
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
