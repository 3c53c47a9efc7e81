package heat

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Map is a matrix ready to be drawn.
type Map struct {
	Title   string // with the unit
	Row     string // what a row is: "CPUs on node"
	Col     string // what a column is: "memory on node"
	Rows    []string
	Cols    []string
	Tables  []Table // the first is the one that is coloured
	Foot    []string
	colours ramp
}

// Table is one figure for each cell of a map.
type Table struct {
	Title  string
	Digits int // after the point
	Cells  [][]Cell
}

// Cell is one number with what colours it.
type Cell struct {
	Value float64 // NaN: none
	Mark  string  // "~" for a number that is not sure
	Ratio float64 // how many times as slow as the best; NaN: grey
}

// number is the value with so many digits; a tenth of a thousand interests nobody.
func (c Cell) number(digits int) string {
	switch {
	case math.IsNaN(c.Value):
		return "-"
	case c.Value >= 999.5:
		digits = 0
	}
	return strconv.FormatFloat(c.Value, 'f', digits, 64)
}

// maxRows is how many rows are drawn before CPUs are put together by node.
const maxRows = 32

// Latency is the heat map of a latency measurement. CPUs are grouped by node
// when there are more than 32, unless expand.
func Latency(d *measure.Document, l *measure.Latency, expand bool) Map {
	m := Map{Title: "idle latency, ns", Row: "CPUs on node", Col: "memory on node", colours: latencyRamp}
	if l.From == "cpu" {
		m.Title, m.Row = "idle latency by CPU, ns", "CPU"
	}
	m.Cols = names(l.Cols)
	ns, times := Table{Title: "ns", Digits: 1}, Table{Title: "times local", Digits: 2}
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
		rows = append(rows, row{strconv.Itoa(id), []int{i}, node})
	}
	notes := map[string]bool{}
	fewest, most := len(l.Rows), 0
	for _, r := range rows {
		name := r.name
		if name == "" {
			name = strconv.Itoa(r.node)
			m.Row = "CPUs on node"
			fewest = min(fewest, len(r.at))
			most = max(most, len(r.at))
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
		var value, ratio []Cell
		for j := range l.Cols {
			v, mark := medianOf(l.Median, r.at, j), ""
			if flag := l.Flag(r.at[0], j); flag != "" {
				notes[flag] = true
				if flag == "~" {
					mark = "~"
				}
			}
			value, ratio = append(value, Cell{v, mark, v / local}), append(ratio, Cell{v / local, "", v / local})
		}
		ns.Cells, times.Cells = append(ns.Cells, value), append(times.Cells, ratio)
	}
	m.Tables = []Table{ns, times}
	if l.From == "node" && d.SLIT != nil {
		slit := Table{Title: "SLIT / 10", Digits: 1}
		for _, id := range l.Rows {
			var cells []Cell
			for _, c := range l.Cols {
				v := float64(d.SLIT.At(d.Position(id), d.Position(c))) / 10
				cells = append(cells, Cell{v, "", v})
			}
			slit.Cells = append(slit.Cells, cells)
		}
		m.Tables = append(m.Tables, slit)
	}
	switch {
	case most == 0:
	case fewest == most:
		m.Foot = append(m.Foot, fmt.Sprintf("a row is the median of %s of its node", words.Count(most, "CPU")))
	default:
		m.Foot = append(m.Foot, fmt.Sprintf("a row is the median of %d to %s of its node", fewest,
			words.Count(most, "CPU")))
	}
	m.Foot = append(m.Foot, latencyFoot(l))
	for _, n := range slices.Sorted(maps.Keys(notes)) {
		m.Foot = append(m.Foot, footOf(n, "latency may look lower"))
	}
	return m
}

func names(ids []int) []string {
	var out []string
	for _, id := range ids {
		out = append(out, strconv.Itoa(id))
	}
	return out
}

// footOf says what a flag of a cell means; cached is what a buffer that caches hold in part does to it.
func footOf(flag, cached string) string {
	switch flag {
	case "~":
		return "~  the 95 % interval is wider than 5 %: the machine was disturbed"
	case "llc-diluted":
		return "the buffer is less than eight caches: " + cached + " than it is"
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
	least := -1
	rejected := 0
	width := 0.0
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
	pages := map[string]string{"thp": "huge pages", "4k": "4 KiB pages", "1g": "1 GiB pages",
		"mixed": "huge and 4 KiB pages"}[l.Pages]
	pages = cmp.Or(pages, "pages of unknown size")
	text := fmt.Sprintf("at least %d samples a cell, %d thrown out, 95 %% interval ±%.1f %% or better, %s", least,
		rejected, 100*width, pages)
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
	m := Map{Title: fmt.Sprintf("bandwidth, GB/s, %s (%s)", mixName(b.Mix), b.Kernel), Row: "CPUs on node",
		Col:  "memory on node",
		Rows: names(b.Rows), Cols: names(b.Cols), colours: bandwidthRamp}
	moved := Table{Title: "GB/s", Digits: 1}
	traffic := Table{Title: "GB/s on the bus", Digits: 1}
	extra := false
	for i, id := range b.Rows {
		local := b.Median.At(i, slices.Index(b.Cols, id))
		var cells, bus []Cell
		for j := range b.Cols {
			v := b.Median[i][j]
			t := b.Traffic.At(i, j)
			mark := ""
			if len(b.Flags) > i && len(b.Flags[i]) > j && b.Flags[i][j] == "~" {
				mark = "~"
			}
			extra = extra || (t.Known() && t != v)
			cells = append(cells, Cell{float64(v) / 1000, mark, float64(local / v)})
			bus = append(bus, Cell{float64(t) / 1000, "", float64(local / v)})
		}
		moved.Cells, traffic.Cells = append(moved.Cells, cells), append(traffic.Cells, bus)
	}
	m.Tables = []Table{moved}
	notes := map[string]bool{}
	for i := range b.Flags {
		for _, flag := range b.Flags[i] {
			if flag != "" {
				notes[footOf(flag, "bandwidth may look higher")] = true
			}
		}
	}
	m.Foot = slices.Sorted(maps.Keys(notes))
	if b.Total.Known() {
		m.Foot = append(m.Foot, fmt.Sprintf("all nodes at once, each local: %.1f GB/s", float64(b.Total)/1000))
	}
	if extra {
		m.Tables = append(m.Tables, traffic)
		m.Foot = append(m.Foot, "on the bus: with the reads that ordinary stores cost before they write")
	}
	return m
}

// mixName says what a mix is made of.
func mixName(mix string) string {
	switch mix {
	case "r":
		return "reads"
	case "w":
		return "writes"
	case "nt":
		return "non-temporal writes"
	}
	if strings.Contains(mix, ":") {
		return mix + " reads to writes"
	}
	return mix
}

// C2C is the heat map of a core to core measurement; colour goes by the ratio
// to the cheapest pair.
func C2C(c *measure.C2C) Map {
	home := map[string]string{"first": "the first node", "A": "the node of the row's CPU",
		"B": "the node of the column's CPU"}[c.LineHome]
	home = cmp.Or(home, c.LineHome)
	m := Map{Title: "core to core, one way, ns (line on " + home + ")", Row: "CPU", Col: "CPU",
		Rows: names(c.CPUs), Cols: names(c.CPUs), colours: pairRamp}
	low := math.NaN()
	for i := range c.CPUs {
		for j := range c.CPUs {
			if v := float64(c.Median.At(i, j)); i != j && !math.IsNaN(v) && !(v >= low) {
				low = v
			}
		}
	}
	t := Table{Title: "ns"}
	for i := range c.CPUs {
		var cells []Cell
		for j := range c.CPUs {
			v := float64(c.Median.At(i, j))
			if i == j {
				v = math.NaN()
			}
			cells = append(cells, Cell{v, "", v / low})
		}
		t.Cells = append(t.Cells, cells)
	}
	m.Tables = []Table{t}
	if len(c.Flags) > 0 {
		m.Foot = append(m.Foot, words.Count(len(c.Flags), "pair")+" did not finish")
	}
	return m
}
