package heat

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
)

// Map is a table ready to be drawn.
type Map struct {
	Title string
	Rows  []string
	Cols  []string
	Cells [][]Cell
	Side  [][]string // further columns on the right, without colour
	SideT string     // their title
	Foot  []string
}

// Cell is one number with what colours it.
type Cell struct {
	Text  string
	Ratio float64 // to local; NaN: grey
}

// maxRows is how many rows are drawn before CPUs are put together by node.
const maxRows = 32

// Latency is the heat map of a latency measurement. CPUs are grouped by node
// when there are more than 32, unless expand.
func Latency(d *measure.Document, l *measure.Latency, expand bool) Map {
	m := Map{Title: "idle latency, ns (ratio to local)"}
	for _, c := range l.Cols {
		m.Cols = append(m.Cols, "node"+strconv.Itoa(c))
	}
	type row struct {
		name string
		at   []int // rows of l
		node int
	}
	var rows []row
	for i, id := range l.Rows {
		node := id
		if l.From == "cpu" {
			node = nodeOf(d, id)
		}
		if l.From == "cpu" && len(l.Rows) > maxRows && !expand {
			if k := slices.IndexFunc(rows, func(r row) bool { return r.node == node }); k >= 0 {
				rows[k].at = append(rows[k].at, i)
				continue
			}
			rows = append(rows, row{"", []int{i}, node})
			continue
		}
		rows = append(rows, row{l.From + strconv.Itoa(id), []int{i}, node})
	}
	notes := map[string]bool{}
	for _, r := range rows {
		name := r.name
		if name == "" {
			name = fmt.Sprintf("node%d, median of %d CPUs", r.node, len(r.at))
		}
		m.Rows = append(m.Rows, name)
		local := float64(measure.Unknown)
		if at := slices.Index(l.Cols, r.node); at >= 0 {
			local = medianOf(l.Median, r.at, at)
		}
		if math.IsNaN(local) {
			for j := range l.Cols {
				if v := medianOf(l.Median, r.at, j); !math.IsNaN(v) && !(v > local) {
					local = v
				}
			}
		}
		var cells []Cell
		for j := range l.Cols {
			v := medianOf(l.Median, r.at, j)
			c := Cell{Text: "-", Ratio: v / local}
			flag := l.Flag(r.at[0], j)
			if !math.IsNaN(v) {
				mark := ""
				if flag == "~" {
					mark = "~"
				}
				c.Text = fmt.Sprintf("%s%.1f (%.2f)", mark, v, v/local)
			}
			if flag != "" {
				notes[flag] = true
			}
			cells = append(cells, c)
		}
		m.Cells = append(m.Cells, cells)
	}
	if l.From == "node" && d.SLIT != nil {
		m.SideT = "SLIT says"
		for _, id := range l.Rows {
			var side []string
			for _, c := range l.Cols {
				v := d.SLIT.At(d.Position(id), d.Position(c))
				text := "-"
				if v.Known() {
					text = fmt.Sprintf("%.1f", float64(v)/10)
				}
				side = append(side, text)
			}
			m.Side = append(m.Side, side)
		}
	}
	m.Foot = append(m.Foot, latencyFoot(l))
	for _, n := range slices.Sorted(keys(notes)) {
		m.Foot = append(m.Foot, footOf(n))
	}
	return m
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func footOf(flag string) string {
	switch flag {
	case "~":
		return "~  the 95 % interval is wider than 5 %: the machine was disturbed"
	case "llc-diluted":
		return "the buffer is less than eight caches: latency may look lower than it is"
	case "4k", "mixed":
		return "measured on 4 KiB pages, or partly: latency has the page tables' share in it"
	}
	return flag
}

func medianOf(t measure.Table, rows []int, col int) float64 {
	var of []float64
	for _, i := range rows {
		if v := t.At(i, col); v.Known() {
			of = append(of, float64(v))
		}
	}
	return measure.Median(of)
}

func nodeOf(d *measure.Document, cpu int) int {
	for _, n := range d.Nodes {
		if n.CPUs.Has(topology.CPUID(cpu)) {
			return n.ID
		}
	}
	return -1
}

func latencyFoot(l *measure.Latency) string {
	least, rejected, width := -1, 0, 0.0
	for i := range l.Rows {
		for j := range l.Cols {
			if l.Samples != nil {
				if n := l.Samples[i][j]; n > 0 && (least < 0 || n < least) {
					least = n
				}
				rejected += l.Rejected[i][j]
			}
			width = max(width, l.CI(i, j).HalfWidth())
		}
	}
	if least < 0 {
		return "samples and intervals are not known"
	}
	pages := map[string]string{"thp": "huge pages", "4k": "4 KiB pages", "1g": "1 GiB pages", "mixed": "huge and 4 KiB pages"}[l.Pages]
	if pages == "" {
		pages = "pages of unknown size"
	}
	text := fmt.Sprintf("at least %d samples a cell, %d thrown out, 95 %% interval ±%.1f %% or better, %s", least, rejected, 100*width, pages)
	if l.Adjacent.Known() {
		text += fmt.Sprintf("; an adjacent-line prefetcher would hide %.0f %%", 100*float64(l.Adjacent))
		if math.Abs(float64(l.Adjacent)) > adjacentTold {
			text += " (more than 3 %: tools that read neighbouring lines show too little)"
		}
	}
	if l.Prefetchers.Known() {
		text += fmt.Sprintf("; prefetchers lower it by %.1f %%", 100*float64(l.Prefetchers))
	}
	return text
}

// adjacentTold is the effect from which it is pointed out.
const adjacentTold = 0.03

// Bandwidth is the heat map of one mix; colour goes by how much less than local.
func Bandwidth(b *measure.Bandwidth) Map {
	m := Map{Title: fmt.Sprintf("bandwidth, GB/s, mix %s (%s)", b.Mix, b.Kernel)}
	for _, c := range b.Cols {
		m.Cols = append(m.Cols, "node"+strconv.Itoa(c))
	}
	extra := false
	for i, id := range b.Rows {
		m.Rows = append(m.Rows, "node"+strconv.Itoa(id))
		local := b.Median.At(i, slices.Index(b.Cols, id))
		var cells []Cell
		for j := range b.Cols {
			v := b.Median[i][j]
			c := Cell{"-", math.NaN()}
			if v.Known() {
				c = Cell{fmt.Sprintf("%.1f", float64(v)/1000), float64(local / v)}
				if t := b.Traffic.At(i, j); t.Known() && t != v {
					c.Text += fmt.Sprintf(" [%.1f]", float64(t)/1000)
					extra = true
				}
				if len(b.Flags) > i && b.Flags[i][j] == "~" {
					c.Text = "~" + c.Text
				}
			}
			cells = append(cells, c)
		}
		m.Cells = append(m.Cells, cells)
	}
	for i := range b.Flags {
		for j, flag := range b.Flags[i] {
			if flag != "" && flag != "~" && !slices.Contains(m.Foot, flag) && j < len(b.Cols) {
				m.Foot = append(m.Foot, footOf(flag))
			}
		}
	}
	m.Foot = slices.Compact(m.Foot)
	if b.Total.Known() {
		m.Foot = append(m.Foot, fmt.Sprintf("all nodes at once, each local: %.1f GB/s", float64(b.Total)/1000))
	}
	if extra {
		m.Foot = append(m.Foot, "[with the reads that ordinary stores cost before they write]")
	}
	return m
}

// C2C is the heat map of a core to core measurement; colour goes by the ratio
// to the cheapest pair.
func C2C(c *measure.C2C) Map {
	m := Map{Title: "core to core, one way, ns; line on node of " + c.LineHome}
	if c.LineHome == "first" {
		m.Title = "core to core, one way, ns; line on the first node"
	}
	low := math.NaN()
	for i := range c.CPUs {
		for j := range c.CPUs {
			if v := float64(c.Median.At(i, j)); i != j && !math.IsNaN(v) && !(v >= low) {
				low = v
			}
		}
	}
	for i, cpu := range c.CPUs {
		m.Rows, m.Cols = append(m.Rows, "cpu"+strconv.Itoa(cpu)), append(m.Cols, strconv.Itoa(cpu))
		var cells []Cell
		for j := range c.CPUs {
			v := float64(c.Median.At(i, j))
			cell := Cell{"-", math.NaN()}
			if i != j && !math.IsNaN(v) {
				cell = Cell{fmt.Sprintf("%.0f", v), v / low}
			}
			cells = append(cells, cell)
		}
		m.Cells = append(m.Cells, cells)
	}
	if len(c.Flags) > 0 {
		m.Foot = append(m.Foot, fmt.Sprintf("%d pairs did not finish", len(c.Flags)))
	}
	return m
}

// Style is what a terminal can show.
type Style struct {
	Colour bool
	True   bool // 24 bit colour
	ASCII  bool
}

// Text draws a map for a terminal.
func (m Map) Text(s Style) string {
	var b strings.Builder
	first := len(m.Title)
	for _, r := range m.Rows {
		first = max(first, len([]rune(r)))
	}
	width := 0
	for i := range m.Cells {
		for j := range m.Cells[i] {
			width = max(width, len([]rune(m.Cells[i][j].Text)), len([]rune(m.Cols[j])))
		}
	}
	pad := func(text string, n int) string { return strings.Repeat(" ", max(0, n-len([]rune(text)))) + text }
	b.WriteString(m.Title + strings.Repeat(" ", first-len(m.Title)))
	for _, c := range m.Cols {
		b.WriteString("  " + pad(c, width))
	}
	if m.Side != nil {
		b.WriteString("    " + m.SideT)
	}
	b.WriteString("\n")
	for i, r := range m.Rows {
		b.WriteString(r + strings.Repeat(" ", first-len([]rune(r))))
		for _, c := range m.Cells[i] {
			b.WriteString(" " + s.paint(" "+pad(c.Text, width), c.Ratio))
		}
		if m.Side != nil {
			b.WriteString("   ")
			for _, v := range m.Side[i] {
				b.WriteString(" " + pad(v, 4))
			}
		}
		b.WriteString("\n")
	}
	for _, f := range m.Foot {
		b.WriteString("  " + f + "\n")
	}
	out := b.String()
	if s.ASCII {
		out = ASCII(out)
	}
	return out
}

func (s Style) paint(text string, ratio float64) string {
	if !s.Colour || math.IsNaN(ratio) {
		return text
	}
	c := ramp(ratio)
	ink := 15
	if c.light() {
		ink = 16
	}
	if s.True {
		return fmt.Sprintf("\x1b[48;2;%d;%d;%dm\x1b[38;5;%dm%s\x1b[0m", c.r, c.g, c.b, ink, text)
	}
	return fmt.Sprintf("\x1b[48;5;%dm\x1b[38;5;%dm%s\x1b[0m", c.xterm(), ink, text)
}

// ASCII spells the few other signs that the texts use.
func ASCII(s string) string {
	return strings.NewReplacer("±", "+-", "×", "x", "→", "->", "–", "-", "…", "...", "█", "#", "░", ".", "≥", ">=", "≤", "<=").Replace(s)
}
