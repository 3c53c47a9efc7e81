package view

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Sizes of the drawing in pixels. It is to be read at the width of a GitHub
// page, about 1,000 wide.
const (
	svgWidth  = 1060
	margin    = 20
	padding   = 10
	gap       = 8
	textSize  = 12
	smallSize = 10
	barHeight = 9

	leastWidth = 570 // room for the legend and for notes
)

// svgStyle holds all colours: blues for CPUs and distances, oranges for memory in use and
// notes, greys; they stay apart for the colour-blind, in a light and a dark set of the same contrast. No CSS
// variables: librsvg and Inkscape do not know them.
//
//go:embed topology.css
var svgStyle string

// svgPart is a part with the least size it needs, and how to draw it at a
// place and size: parts side by side are drawn equally large.
type svgPart struct {
	width, height int
	draw          func(x, y, w, h int)
}

var nothing = svgPart{draw: func(int, int, int, int) {}}

// svgDrawing collects the elements.
type svgDrawing struct {
	strings.Builder
	host     *topology.Host
	numbered bool // cores are large enough for CPU numbers
	digits   int
}

// TopologySVG writes a host as a self-contained SVG, the same bytes for the
// same host.
func TopologySVG(w io.Writer, h *topology.Host) error {
	d := &svgDrawing{host: h, numbered: h.Online.Len() <= 160, digits: len(strconv.Itoa(int(h.Online.Max())))}
	room := svgWidth - 2*margin
	root := d.flow(d.children(partsOf(h), room), room)
	matrices := d.matrices(room)
	width := min(room, max(root.width, matrices.width, leastWidth, svgTextWidth(summaryText(h), 16),
		svgTextWidth(h.CPU, textSize)))
	y := margin + 24
	d.text(margin, y-8, "h", summaryText(h))
	if h.CPU != "" {
		d.text(margin, y+8, "c", h.CPU)
		y += textSize + 8
	}
	root.draw(margin, y, width, root.height)
	y += root.height + gap
	if loose := d.looseDevices(width); loose.height > 0 {
		loose.draw(margin, y, width, loose.height)
		y += loose.height + gap
	}
	y = d.legend(y+12, width)
	if matrices.height > 0 {
		matrices.draw(margin, y+12, width, matrices.height)
		y += matrices.height + 12 + gap
	}
	if len(h.Notes) > 0 {
		y += gap
	}
	for _, n := range h.Notes {
		for i, line := range wrapText(n.Text, (width-80)*10/62) {
			if i == 0 {
				d.text(margin, y+smallSize, "s w", n.Subject)
			}
			d.text(margin+80, y+smallSize, "s", line)
			y += smallSize + 4
		}
	}
	width, height := width+2*margin, y+margin-gap
	_,
		err := fmt.Fprintf(w,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">
<style>
%s</style>
<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>
%s</svg>
`, width, height, width, height, Markup(summaryText(h)), svgStyle, width-1, height-1, d.String())
	return err
}

func summaryText(h *topology.Host) string {
	text := fmt.Sprintf("%s · %s · %s · %s", words.Count(len(h.Nodes), "NUMA node"), words.Count(len(h.Cores), "core"),
		words.Count(h.Online.Len(), "CPU"), words.Size(h.Memory()))
	if len(h.Packages) > 0 {
		text = words.Count(len(h.Packages), "package") + " · " + text
	}
	return text
}

func (d *svgDrawing) text(x, y int, class, text string) {
	if class != "" {
		class = fmt.Sprintf(` class="%s"`, class)
	}
	fmt.Fprintf(d, "<text%s x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, Markup(text))
}

func (d *svgDrawing) box(class string, x, y, w, h, radius int) {
	fmt.Fprintf(d, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>\n", class, x, y, w, h,
		radius)
}

// textWidth guesses wide, so that text stays in its box whatever the font is.
func svgTextWidth(text string, fontSize int) int { return len([]rune(text)) * fontSize * 62 / 100 }

// flow places parts in rows of equal columns: as many as fit, or fewer where
// that leaves no hole in the last row.
func (d *svgDrawing) flow(parts []svgPart, room int) svgPart {
	if len(parts) == 0 {
		return nothing
	}
	widest := 0
	for _, p := range parts {
		widest = max(widest, p.width)
	}
	columns := even(len(parts), max(1, (room+gap)/(widest+gap)))
	rows := (len(parts) + columns - 1) / columns
	heights := make([]int, rows)
	total := (rows - 1) * gap
	for i, p := range parts {
		heights[i/columns] = max(heights[i/columns], p.height)
	}
	for _, h := range heights {
		total += h
	}
	return svgPart{columns*(widest+gap) - gap, total, func(x, y, w, h int) {
		each := (w+gap)/columns - gap
		for i, p := range parts {
			if i > 0 && i%columns == 0 {
				y += heights[i/columns-1] + gap
			}
			p.draw(x+i%columns*(each+gap), y, each, heights[i/columns])
		}
	}}
}

// even is the number of columns, at most most, for n things: the largest that
// divides n if it is not much smaller, else one that fills the rows evenly.
func even(n, most int) int {
	if n <= most {
		return n
	}
	for c := most; c > most*2/3; c-- {
		if n%c == 0 {
			return c
		}
	}
	rows := (n + most - 1) / most
	return (n + rows - 1) / rows
}

// children are the parts inside one, placed.
func (d *svgDrawing) children(p *part, room int) []svgPart {
	var out []svgPart
	if len(p.cores) > 0 {
		out = append(out, d.cores(p.cores))
	}
	for _, q := range p.inner {
		switch {
		case q.pack != nil:
			out = append(out, d.framed(q, "pack", "package "+strconv.Itoa(int(q.pack.ID)), room))
		case q.node != nil:
			out = append(out, d.node(q, room))
		default:
			out = append(out, d.framed(q, "llc", q.cacheTitle(), room))
		}
	}
	return out
}

// framed is a box with a title around what is inside.
func (d *svgDrawing) framed(p *part, class, title string, room int) svgPart {
	inner := d.flow(d.children(p, room-2*padding), room-2*padding)
	titleClass, titleSize := "b", textSize
	if class == "llc" {
		titleClass, titleSize = "s", smallSize
	}
	aside := ""
	if class == "pack" && nodeless(d.host, p.cpus) {
		aside = "on no online node"
	}
	if class == "llc" && !d.numbered {
		aside = siblings(coresOf(p))
	}
	head := svgTextWidth(title+"  "+aside, titleSize)
	if class == "llc" {
		return svgPart{max(inner.width, head) + 12, inner.height + titleSize + 14, func(x, y, w, h int) {
			d.box(class, x, y, w, h, 5)
			d.text(x+6, y+titleSize+2, titleClass, title)
			d.text(x+w-6, y+titleSize+2, "s e", aside)
			inner.draw(x+6, y+titleSize+8, w-12, inner.height)
		}}
	}
	return svgPart{max(inner.width, head) + 2*padding, inner.height + titleSize + 2*padding + 4, func(x, y, w, h int) {
		d.box(class, x, y, w, h, 7)
		d.text(x+padding, y+titleSize+6, titleClass, title)
		d.text(x+w-padding, y+titleSize+6, "s e w", aside)
		inner.draw(x+padding, y+titleSize+padding+4, w-2*padding, inner.height)
	}}
}

// coresOf are all cores inside a part.
func coresOf(p *part) []topology.Core {
	cores := slices.Clone(p.cores)
	for _, q := range p.inner {
		cores = append(cores, coresOf(q)...)
	}
	slices.SortFunc(cores, func(a, b topology.Core) int { return int(a.CPUs.Min() - b.CPUs.Min()) })
	return cores
}

// node is a box with memory, huge pages, devices, and caches or cores.
func (d *svgDrawing) node(p *part, room int) svgPart {
	n := p.node
	inner := d.flow(d.children(p, room-2*padding), room-2*padding)
	memory, name := memoryText(n), nodeName(n.ID)
	class := "node"
	if n.CPUs.Empty() {
		class, name = class+" bare", name+", no CPUs"
	}
	lines := pools(n)
	if !d.numbered && len(p.cores) > 0 {
		lines = append([]string{"CPUs " + siblings(p.cores)}, lines...)
	}
	w := max(inner.width, 130, svgTextWidth(name+"  ", textSize)+svgTextWidth(memory, smallSize))
	for _, l := range lines {
		w = max(w, svgTextWidth(l, smallSize))
	}
	w = min(w, room-2*padding)
	chips := d.chips(d.devicesOf(n.ID), w)
	h := textSize + 6 + barHeight + 6 + len(lines)*(smallSize+4) + chips.height + inner.height
	low := h + 2*padding
	return svgPart{w + 2*padding, low, func(x, y, w, h int) {
		if n.CPUs.Empty() {
			h = low
		}
		d.box(class, x, y, w, h, 6)
		x = x + padding
		y = y + padding
		w = w - 2*padding
		d.text(x, y+textSize-1, "b", name)
		d.text(x+w, y+textSize-1, "s e", memory)
		y += textSize + 6
		d.bar(x, y, w, n)
		y += barHeight + 6
		for _, l := range lines {
			d.text(x, y+smallSize, "s", l)
			y += smallSize + 4
		}
		chips.draw(x, y, w, chips.height)
		inner.draw(x, y+chips.height, w, inner.height)
	}}
}

func memoryText(n *topology.Node) string {
	switch {
	case n.Memory == 0:
		return "no memory"
	case n.Memory == topology.None:
		return "memory unknown"
	case n.Free == topology.None:
		return words.Size(n.Memory)
	}
	free, total := words.Size(n.Free), words.Size(n.Memory)
	if number, unit, _ := strings.Cut(free, " "); strings.HasSuffix(total, " "+unit) {
		free = number
	}
	return free + " of " + total + " free"
}

// bar shows memory used, reclaimable and free.
func (d *svgDrawing) bar(x, y, w int, n *topology.Node) {
	if n.Memory <= 0 {
		d.box("ring", x, y, w, barHeight, 3)
		return
	}
	d.box("free", x, y, w, barHeight, 3)
	if n.Free == topology.None {
		return
	}
	used := max(0, n.Memory-n.Free)
	cache := min(max(0, n.Reclaimable), used)
	px := func(k topology.KiB) int { return int(k * topology.KiB(w) / n.Memory) }
	if px(used) > 0 {
		d.box("cache", x, y, px(used), barHeight, 3)
	}
	if px(used-cache) > 0 {
		d.box("used", x, y, px(used-cache), barHeight, 3)
	}
}

// cores are squares, one per core, with a stripe for each SMT sibling. Slower
// cores are lower.
func (d *svgDrawing) cores(cores []topology.Core) svgPart {
	threads := 1
	for _, c := range cores {
		threads = max(threads, c.CPUs.Len())
	}
	cellW, stripe := 11, max(3, 11/threads)
	if d.numbered {
		cellW, stripe = max(16, d.digits*6+6), 12
	}
	cellH := threads*stripe + threads - 1
	most := 8
	switch n := len(cores); {
	case n > 64:
		most = 32
	case n > 16:
		most = 16
	}
	columns := even(len(cores), most)
	rows := (len(cores) + columns - 1) / columns
	width := columns*(cellW+3) - 3
	return svgPart{width, rows*(cellH+3) - 3, func(x, y, w, _ int) {
		x += max(0, w-width) / 2
		for i, c := range cores {
			d.core(x+i%columns*(cellW+3), y+i/columns*(cellH+3), cellW, stripe, c)
		}
	}}
}

func (d *svgDrawing) core(x, y, w, stripe int, c topology.Core) {
	cut := 0
	if c.Capacity != topology.None {
		cut = w * (1024 - c.Capacity) / 1024 / 2
	}
	fmt.Fprintf(d, "<g><title>%s</title>\n", Markup(coreTitle(c)))
	for t, cpu := range c.CPUs.Slice() {
		class := "core"
		if !d.host.Allowed.Has(cpu) {
			class += " not"
		}
		top := y + t*(stripe+1)
		d.box(class, x+cut, top, w-2*cut, stripe, 2)
		if d.numbered {
			d.text(x+w/2, top+stripe-3, "id", strconv.Itoa(int(cpu)))
		}
	}
	d.WriteString("</g>\n")
}

func coreTitle(c topology.Core) string {
	text := "one core: CPU " + c.CPUs.String()
	if c.Capacity != topology.None && c.Capacity < 1024 {
		text += fmt.Sprintf(", %d %% of the fastest core's speed", (c.Capacity*100+512)/1024)
	}
	return text
}

func (d *svgDrawing) devicesOf(id topology.NodeID) []topology.Device {
	var out []topology.Device
	for _, dev := range d.host.Devices {
		if dev.Node == id {
			out = append(out, dev)
		}
	}
	slices.SortStableFunc(out,
		func(a, b topology.Device) int { return cmp.Compare(kindOrder(a.Kind), kindOrder(b.Kind)) })
	return out
}

func kindOrder(k topology.DeviceKind) int {
	return slices.Index([]topology.DeviceKind{topology.NIC, topology.NVMe, topology.Storage, topology.GPU,
		topology.Accel}, k)
}

// maxChips devices are named; the rest are counted. Hosts with SR-IOV have hundreds.
const maxChips = 12

func (d *svgDrawing) chips(devices []topology.Device, room int) svgPart {
	var labels []string
	for i, dev := range devices {
		if i == maxChips && len(devices) > maxChips+1 {
			labels = append(labels, fmt.Sprintf("%d more", len(devices)-i))
			break
		}
		labels = append(labels, string(dev.Kind)+" "+cmp.Or(dev.GPU, dev.Name))
	}
	type place struct{ x, y, w int }
	places := make([]place, len(labels))
	x := 0
	y := 0
	for i, l := range labels {
		w := svgTextWidth(l, smallSize) + 14 // names of devices have wide letters
		if x > 0 && x+w > room {
			x, y = 0, y+18
		}
		places[i] = place{x, y, w}
		x += w + 4
	}
	if len(labels) == 0 {
		return nothing
	}
	return svgPart{room, y + 20, func(x, y, _, _ int) {
		for i, l := range labels {
			p := places[i]
			d.box("chip", x+p.x, y+p.y, p.w, 15, 7)
			d.text(x+p.x+p.w/2, y+p.y+11, "s m", l)
		}
	}}
}

// looseDevices are those whose node is unknown.
func (d *svgDrawing) looseDevices(room int) svgPart {
	chips := d.chips(d.devicesOf(topology.None), room-2*padding)
	if chips.height == 0 {
		return chips
	}
	return svgPart{room, chips.height + 28, func(x, y, w, h int) {
		d.box("ring", x, y, w, h, 7)
		d.text(x+padding, y+textSize+6, "b", "devices whose node is unknown")
		chips.draw(x+padding, y+textSize+12, w-2*padding, chips.height)
	}}
}

// legend says what colours and dashes mean that are there.
func (d *svgDrawing) legend(y, width int) int {
	x, h := margin, d.host
	item := func(class, text string) {
		w := 16 + svgTextWidth(text, smallSize) + 14
		if x > margin && x+w > margin+width {
			x, y = margin, y+18
		}
		d.box(class, x, y-9, 11, 11, 2)
		d.text(x+16, y, "s", text)
		x += w
	}
	core := "one core"
	if slices.ContainsFunc(h.Cores, func(c topology.Core) bool { return c.CPUs.Len() > 1 }) {
		core = "one CPU; those stacked share a core"
	}
	if slices.ContainsFunc(h.Cores, func(c topology.Core) bool {
		return c.Capacity != topology.None &&
			c.Capacity < 1024
	}) {
		core += "; slower cores are narrower"
	}
	item("core", core)
	item("used", "memory in use")
	item("cache", "page cache")
	item("free", "free memory")
	if slices.ContainsFunc(h.Nodes, func(n topology.Node) bool { return n.CPUs.Empty() }) {
		item("node bare", "node without CPUs: CXL, HBM, persistent or device memory")
	}
	return y + gap
}

// heatSteps colours, .d0 to .d5, are ColorBrewer's Blues, safe for the
// colour-blind; numbers on them are dark on the light ones and white on the
// dark ones, in both colour schemes.
const heatSteps = 6

// matrices are the SLIT and, beside or below it, what was measured; the stronger the colour, the farther.
func (d *svgDrawing) matrices(room int) svgPart {
	h := d.host
	if len(h.Nodes) < 2 {
		return nothing
	}
	var parts []svgPart
	measured := h.Measured != nil && len(h.Measured.LatencyNs) == len(h.Nodes)
	each := room
	if measured {
		each = (room - gap) / 2
	}
	if h.Distances != nil {
		slit := make([][]float64, len(h.Nodes))
		for i, row := range h.Distances {
			for _, v := range row {
				slit[i] = append(slit[i], float64(max(0, v))) // topology.None is negative
			}
		}
		parts = append(parts, d.matrix(each, "SLIT distances", "relative, 10 is local; not a latency", slit))
	}
	if measured {
		parts = append(parts, d.matrix(each, "Measured latency",
			"ns, idle; from the CPUs of the row to the memory of the column", h.Measured.LatencyNs))
	}
	return d.flow(parts, room)
}

// matrix has a row and a column for each node; 0 is unknown.
func (d *svgDrawing) matrix(room int, title, aside string, values [][]float64) svgPart {
	h := d.host
	low, high := 0.0, 0.0
	for i, row := range values {
		for j, v := range row {
			if i != j && v > 0 {
				if low == 0 || v < low {
					low = v
				}
				high = max(high, v)
			}
		}
	}
	n := len(h.Nodes)
	label := svgTextWidth(nodeName(h.Nodes[n-1].ID), smallSize) + 6
	cell := min(38, max(14, (room-label)/n))
	cellH := min(24, max(14, cell))
	const head = 2*textSize + 24
	aside += "; bolder is farther"
	return svgPart{max(label+n*cell, svgTextWidth(aside, smallSize)), head + n*cellH, func(x, y, _, _ int) {
		d.text(x, y+textSize, "b", title)
		d.text(x, y+textSize+smallSize+4, "s", aside)
		y += head
		for j, node := range h.Nodes {
			d.text(x+label+j*cell+cell/2, y-5, "s m", strconv.Itoa(int(node.ID)))
		}
		for i, row := range values {
			d.text(x+label-6, y+i*cellH+cellH/2+4, "s e", nodeName(h.Nodes[i].ID))
			for j, v := range row {
				d.cell(x+label+j*cell, y+i*cellH, cell-1, cellH-1, v, i == j, low, high)
			}
		}
	}}
}

func (d *svgDrawing) cell(x, y, w, h int, v float64, local bool, low, high float64) {
	class, text := "c m", "?"
	if v > 0 {
		text = strconv.FormatFloat(v, 'f', 0, 64)
		if !local {
			step := 0
			if high > low {
				step = int((v - low) * (heatSteps - 1) / (high - low))
			}
			d.box(fmt.Sprintf("d%d", step), x, y, w, h, 2)
			class = fmt.Sprintf("m t%d", step)
		}
	}
	size := min(11, max(7, w/2))
	if len(text) > 2 {
		size = min(size, max(5, w*10/6/len(text)))
	}
	fmt.Fprintf(d, "<text class=\"%s\" x=\"%d\" y=\"%d\" style=\"font-size:%dpx\">%s</text>\n", class, x+w/2, y+h/2+4,
		size, text)
}

// wrapText breaks text into lines of at most width characters.
func wrapText(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
