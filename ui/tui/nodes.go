package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/ui/figures"
)

// How wide cells are: the least that shows a bar with a number, the least that shows units too, and
// the most that is worth it.
const (
	leastCell = 9
	wordyCell = 23
	mostCell  = 48
	nodeLabel = 8
)

// figure is one of a node: its share of what there is, for a bar, and a text, short or with units.
type figure struct {
	share       float64
	short, long string
	alone       string // instead of a bar with short, in cells that are too narrow for long
	colour      string
}

var unknown = figure{share: -1, short: "-", long: "-"}

// nodeLine is a figure of every node, side by side.
type nodeLine struct {
	name  string
	of    func(n *api.Node) figure
	share bool // short is in percent
}

// part is a figure that is a part of another.
func part(f *figures.Figure[api.Node]) func(n *api.Node) figure {
	return func(n *api.Node) figure {
		v, most := f.Of(n), f.Most(n)
		if v == nil || most == nil || *most == 0 {
			return unknown
		}
		share := *v / *most
		x := figure{share: share, short: fmt.Sprintf("%.0f", 100*share), colour: busy(share)}
		switch f.Unit {
		case figures.CPUs:
			x.long = fmt.Sprintf("%.1f/%.0f CPUs", *v, *most)
		case figures.KiB:
			x.long = fmt.Sprintf("%.0f/%.0f GiB", gib(int64(*v)), gib(int64(*most)))
		default:
			x.short, x.long = fmt.Sprintf("%.3g", *v), fmt.Sprintf("%.3g/%.0f", *v, *most)
		}
		if f.Booked {
			x.colour = blue
		}
		return x
	}
}

func gib(kib int64) float64 { return float64(kib) / (1 << 20) }

// nodes is the NUMA nodes side by side.
func (m *Model) nodes() []string {
	all := m.status.Nodes
	if len(all) == 0 {
		return []string{m.paint(dim, "no NUMA node was seen yet")}
	}
	width := cmp.Or(m.width, nodeLabel+mostCell*len(all))
	fits := max(1, (width-nodeLabel)/leastCell)
	from := max(0, min(m.node, len(all)-fits))
	shown := all[from:min(len(all), from+fits)]
	cell := min(mostCell, (width-nodeLabel)/len(shown))
	title := ""
	if len(shown) < len(all) {
		title = fmt.Sprintf("%d to %d of %d: ← →", shown[0].ID, shown[len(shown)-1].ID, len(all))
	}
	rows := m.figures()
	value, gap := 4, 1
	if cell > leastCell+1 {
		value = 5
	}
	if cell >= wordyCell {
		gap = 3
		for _, r := range rows {
			for i := range shown {
				value = max(value, min(len(r.of(&shown[i]).long)+1, cell/2+4))
			}
		}
	}
	first := left("NODE", nodeLabel)
	for i := range shown {
		text := fmt.Sprint(shown[i].ID)
		if cell >= wordyCell {
			text += m.paint(dim, "  CPUs "+cmp.Or(shown[i].CPUs, "-"))
		}
		first += left(text, cell-gap) + strings.Repeat(" ", gap)
	}
	if title != "" {
		first = left(first, width-ansi.StringWidth(title)) + m.paint(dim, title)
	}
	lines := []string{m.paint(bold, strings.TrimRight(first, " "))}
	for _, r := range rows {
		name := r.name
		if r.share && cell < wordyCell {
			name += " %"
		}
		line := m.paint(dim, left(name, nodeLabel))
		for i := range shown {
			x := r.of(&shown[i])
			text := x.short
			switch {
			case cell >= wordyCell:
				text = x.long
			case x.alone != "":
				line += right(x.alone, cell-gap) + strings.Repeat(" ", gap)
				continue
			}
			line += m.bar(x.share, cell-value-gap, x.colour) + right(text, value) + strings.Repeat(" ", gap)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// figures is what is shown of each node, a line each: first what is measured.
func (m *Model) figures() []nodeLine {
	low := m.height > 0 && m.height < 30 // there is no room for what matters less
	var measured, booked []nodeLine
	for i := range figures.Nodes {
		f := &figures.Nodes[i]
		switch {
		case f.Line == "" || f.Most == nil:
		case f.Booked && !low:
			booked = append(booked, nodeLine{name: f.Line, of: part(f)})
		case !f.Booked:
			measured = append(measured, nodeLine{name: f.Line, of: part(f), share: true})
		}
	}
	all := append(append(measured, nodeLine{name: "GB/s", of: m.traffic}), booked...)
	if s := m.status.Sharing; s != nil && len(s.Nodes) > 0 {
		online := func(b *api.ShareNode) (float64, float64) { return b.Online, float64(b.Pool) }
		batch := func(b *api.ShareNode) (float64, float64) {
			given, _ := topology.ParseCPUSet(b.Given) // whole cores: a part of one more than it may keep busy
			return b.Used, float64(given.Len())
		}
		all = append(all, nodeLine{name: "ONLINE", of: m.shared(online)}, nodeLine{name: "BATCH", of: m.shared(batch)})
	}
	return all
}

// shared is a figure of sharing: CPUs of a node that are busy, and of how many.
func (m *Model) shared(of func(b *api.ShareNode) (used, most float64)) func(n *api.Node) figure {
	return func(n *api.Node) figure {
		all := m.status.Sharing.Nodes
		i := slices.IndexFunc(all, func(b api.ShareNode) bool { return b.Node == n.ID })
		if i < 0 {
			return unknown
		}
		used, most := of(&all[i])
		text := func(x float64) string {
			if x >= 9.95 {
				return fmt.Sprintf("%.0f", x)
			}
			return fmt.Sprintf("%.1f", x)
		}
		ratio := text(used) + "/" + text(most)
		return figure{share: used / max(most, 0.01), long: ratio + " CPUs", alone: ratio, colour: cyan}
	}
}

// traffic is that of a node's memory: of what it can deliver, where that was measured, else of what
// the busiest node has.
func (m *Model) traffic(n *api.Node) figure {
	if n.Bandwidth == nil {
		return unknown
	}
	use := float64(*n.Bandwidth)
	short := fmt.Sprintf("%.1f", figures.GB(use))
	if figures.GB(use) >= 9.95 { // a number of four characters would touch the bar
		short = fmt.Sprintf("%.0f", figures.GB(use))
	}
	long := fmt.Sprintf("%.1f GB/s", figures.GB(use))
	if most := m.bandwidths[n.ID]; most > 0 {
		return figure{share: use / most, short: short, long: fmt.Sprintf("%.1f/%.0f GB/s", figures.GB(use),
			figures.GB(most)), colour: busy(use / most)}
	}
	if len(m.status.Nodes) == 1 { // it would be full
		return figure{share: -1, short: short, long: long, colour: cyan}
	}
	// the busiest is no more than that
	return figure{share: use / max(1, m.most()), short: short, long: long, colour: cyan}
}

// most is the traffic of the busiest node, MiB/s: what bars are drawn by where nothing was measured.
func (m *Model) most() (most float64) {
	for i := range m.status.Nodes {
		if b := m.status.Nodes[i].Bandwidth; b != nil {
			most = max(most, float64(*b))
		}
	}
	return most
}
