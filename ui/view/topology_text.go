package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// textWidth is the narrowest terminal in common use.
const textWidth = 80

// TopologyText draws a host in at most 80 columns.
func TopologyText(w io.Writer, p Paint, h *topology.Host) {
	d := &drawing{w: w, Paint: p, host: PlainAll(h)}
	d.summary()
	d.parts()
	d.tiers()
	d.distances()
	d.measured()
	d.devices()
	d.gpus()
	d.notes()
}

type drawing struct {
	w io.Writer
	Paint
	host                   *topology.Host
	nameWidth, memoryWidth int
	oneLine                bool
}

func (d *drawing) line(text string) { fmt.Fprintln(d.w, strings.TrimRight(text, " ")) }

func (d *drawing) heading(text, aside string) {
	d.line("")
	d.line(d.Bold(text) + d.Dim(aside))
}

// wrapped prints words after a first text, going on under it. A word longer
// than a line is broken at its commas.
func (d *drawing) wrapped(first string, words []string, gap string) {
	indent := ansi.StringWidth(first)
	line := first
	room := textWidth - indent
	empty := true
	put := func(word string) {
		width := ansi.StringWidth(word)
		if !empty && ansi.StringWidth(line)+len(gap)+width > textWidth {
			d.line(line)
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += gap
		}
		line += word
		empty = false
	}
	for _, word := range words {
		for ansi.StringWidth(word) > room && !strings.Contains(word, "\x1b") {
			head := word[:min(room, len(word))]
			cut := strings.LastIndexAny(head, ", ") + 1
			if cut <= 0 {
				break
			}
			put(word[:cut])
			word = strings.TrimLeft(word[cut:], " ")
		}
		put(word)
	}
	d.line(line)
}

func (d *drawing) summary() {
	h := d.host
	memory, free, ofGPUs := totals(h)
	text := fmt.Sprintf("%s, %s, %s", words.Count(len(h.Nodes), "node"), words.Count(len(h.Cores), "core"),
		words.Count(h.Online.Len(), "CPU"))
	if len(h.Packages) > 0 {
		text = words.Count(len(h.Packages), "package") + ", " + text
	}
	text += "; " + words.Size(memory) + " of memory"
	if free != topology.None {
		text += ", " + words.Size(free) + " free"
	}
	d.line(d.Bold(text))
	if ofGPUs > 0 {
		text = fmt.Sprintf("memory of GPUs, in addition: %s on %s", words.Size(ofGPUs), nodeList(h.GPUNodes()))
		d.wrapped("", strings.Fields(text), " ")
	}
	if h.CPU != "" {
		d.wrapped("", strings.Fields(h.CPU), " ")
	}
	if !h.Offline.Empty() {
		d.wrapped("", strings.Fields(fmt.Sprintf("%s offline: %s", words.Count(h.Offline.Len(), "CPU"),
			cpuList(h.Offline))), " ")
	}
	if !h.Allowed.Equal(h.Online) || !h.AllowedMems.Equal(h.WithMemory()) {
		d.wrapped("", strings.Fields(fmt.Sprintf("this process is confined to CPUs %s and to memory of %s",
			cpuList(h.Allowed),
			nodeList(h.AllowedMems))), " ")
	}
}

func nodeList(s topology.NodeSet) string {
	if s.Len() == 1 {
		return "node " + s.String()
	}
	return "nodes " + s.String()
}

func (d *drawing) parts() {
	root := partsOf(d.host)
	d.line("")
	for _, n := range d.host.Nodes {
		d.nameWidth = max(d.nameWidth, len(nodeName(n.ID))+2)
		d.memoryWidth = max(d.memoryWidth, ansi.StringWidth(d.memory(&n)))
	}
	if len(root.cores) > 0 {
		d.wrapped("CPUs  ", strings.Fields(siblings(root.cores)), " ")
	}
	// Each node takes one line if that works for all of them; the first pass finds out.
	out := d.w
	d.w, d.oneLine = io.Discard, true
	d.inner(root, "")
	d.w = out
	d.inner(root, "")
}

func nodeName(id topology.NodeID) string { return "node" + strconv.Itoa(int(id)) }

// inner prints the parts inside one. Caches that hold only cores share lines.
func (d *drawing) inner(p *part, indent string) {
	caches, others := p.caches()
	for _, c := range caches {
		d.wrapped(indent+c.title+"  ", c.words, " ")
	}
	for _, q := range others {
		d.part(q, indent)
	}
}

// cacheLine is the caches of one level and size inside a part.
type cacheLine struct {
	title string
	words []string
}

// caches gathers the caches that hold nothing but cores; others are the rest.
func (p *part) caches() (lines []cacheLine, others []*part) {
	groups := map[string][]*part{}
	var titles []string
	for _, q := range p.inner {
		if q.llc == nil || len(q.inner) > 0 {
			others = append(others, q)
			continue
		}
		title := cacheName(q.llc)
		if groups[title] == nil {
			titles = append(titles, title)
		}
		groups[title] = append(groups[title], q)
	}
	for _, title := range titles {
		of := groups[title]
		words := cacheWords(of)
		switch {
		case of[0].home && len(of) == 1:
			title += " cache"
		case of[0].home:
			title += " caches"
		}
		lines = append(lines, cacheLine{title, words})
	}
	return lines, others
}

// cacheWords are the CPUs of each cache; where each core has its own, once for all.
func cacheWords(caches []*part) []string {
	if len(caches) == 1 && !caches[0].home {
		return strings.Fields(siblings(caches[0].cores))
	}
	var words []string
	var all []topology.Core
	for _, c := range caches {
		number := ""
		if c.home {
			number = strconv.Itoa(int(c.llc.ID)) + ":"
		}
		words = append(words, number+"["+siblings(c.cores)+"]")
		all = append(all, c.cores...)
	}
	if len(all) == len(caches) && !caches[0].home {
		return strings.Fields(siblings(all) + ", one per core")
	}
	return words
}

func cacheName(c *topology.LLC) string {
	name := "L" + strconv.Itoa(c.Level)
	if c.Size != topology.None {
		name += " " + words.Size(c.Size)
	}
	return name
}

// cacheTitle is the name of a cache, with its number where homes name it.
func (p *part) cacheTitle() string {
	if !p.home {
		return cacheName(p.llc)
	}
	return cacheName(p.llc) + " cache " + strconv.Itoa(int(p.llc.ID))
}

// part prints one part. A package around a single node shares its line.
func (d *drawing) part(p *part, indent string) {
	var title string
	switch {
	case p.node != nil:
		d.node(p, indent, indent+"  ")
		return
	case p.pack != nil:
		title = d.Bold("package " + strconv.Itoa(int(p.pack.ID)))
		if len(p.cores) == 0 && len(p.inner) == 1 && p.inner[0].node != nil && !p.inner[0].cpus.Empty() {
			d.node(p.inner[0], indent+title+"  ", indent+"  ")
			return
		}
		if nodeless(d.host, p.cpus) {
			title += d.Warn("  on no online node")
		}
	default:
		title = p.cacheTitle()
	}
	caches, others := p.caches()
	if len(others) == 0 && len(p.cores) == 0 && len(caches) == 1 {
		d.wrapped(indent+title+"  "+caches[0].title+"  ", caches[0].words, " ")
		return
	}
	d.line(indent + title)
	if len(p.cores) > 0 {
		d.wrapped(indent+"  CPUs  ", strings.Fields(siblings(p.cores)), " ")
	}
	d.inner(p, indent+"  ")
}

func nodeless(h *topology.Host, cpus topology.CPUSet) bool {
	return h.NodesOf(cpus).Empty()
}

// node prints a node with its memory, then what it holds: on the same line if
// that is one thing and fits, else below.
func (d *drawing) node(p *part, before, indent string) {
	n := p.node
	text := before + d.Bold(fmt.Sprintf("%-*s", d.nameWidth, nodeName(n.ID))) + d.memory(n)
	var lines []cacheLine
	var others []*part
	if len(p.cores) > 0 {
		lines = append(lines, cacheLine{"CPUs", strings.Fields(siblings(p.cores))})
	}
	more, others := p.caches()
	lines = append(lines, more...)
	if n.CPUs.Empty() {
		lines = append(lines, cacheLine{d.Dim("no CPUs" + typeOf(n) + d.nearest(n)), nil})
	}
	for _, pool := range pools(n) {
		lines = append(lines, cacheLine{pool, nil})
	}
	if len(lines) > 0 {
		pad := max(0, d.memoryWidth-ansi.StringWidth(d.memory(n)))
		same := text + strings.Repeat(" ", pad) + "  " + lines[0].title + "  "
		alone := len(lines) == 1 && len(others) == 0
		same = strings.TrimRight(same+strings.Join(lines[0].words, " "), " ")
		fits := ansi.StringWidth(same) <= textWidth
		if alone && !fits && !n.CPUs.Empty() {
			d.oneLine = false
		}
		if alone && fits && (d.oneLine || n.CPUs.Empty()) {
			text, lines = same, nil
		}
	}
	d.line(text)
	for _, l := range lines {
		d.wrapped(indent+l.title+"  ", l.words, " ")
	}
	for _, q := range others {
		d.part(q, indent)
	}
}

// nearest names the nodes with CPUs that are nearest to one without.
func (d *drawing) nearest(n *topology.Node) string {
	if d.host.Distances == nil {
		return ""
	}
	row := d.host.Distances[d.host.Index(n.ID)]
	least := 0
	near := topology.NodeSet{}
	with := 0
	for j, v := range row {
		if d.host.Nodes[j].CPUs.Empty() || v == topology.None {
			continue
		}
		with++
		if least == 0 || v < least {
			least, near = v, topology.NodeSet{}
		}
		if v == least {
			near.Add(d.host.Nodes[j].ID)
		}
	}
	if near.Empty() || (near.Len() == with && with > 1) {
		return ""
	}
	return ", nearest " + near.String()
}

const barWidth = 12

// memory is a bar of what is used, what the kernel can give back, and what is free.
func (d *drawing) memory(n *topology.Node) string {
	switch {
	case n.Memory == 0:
		return d.Warn("no memory")
	case n.Memory == topology.None:
		return d.Dim("memory unknown")
	case n.Free == topology.None:
		return words.Size(n.Memory)
	}
	used := n.Memory - n.Free
	cache := min(max(0, n.Reclaimable), used)
	cells := func(k topology.KiB) int { return int((k*barWidth + n.Memory/2) / n.Memory) }
	full, soft := cells(used-cache), cells(used)
	if full == 0 && used-cache > 0 {
		full, soft = 1, max(1, soft)
	}
	bar := d.Good(strings.Repeat("█", full)+strings.Repeat("▒", soft-full)) + d.Dim(strings.Repeat("░", barWidth-soft))
	free, unit, _ := strings.Cut(words.Size(n.Free), " ")
	if total := words.Size(n.Memory); strings.HasSuffix(total, " "+unit) {
		return fmt.Sprintf("%s %5s of %s free", bar, free, total)
	}
	return fmt.Sprintf("%s %s of %s free", bar, words.Size(n.Free), words.Size(n.Memory))
}

// pools says what huge pages there are; sizes without any are left out.
func pools(n *topology.Node) []string {
	var out []string
	for _, p := range n.HugePages {
		switch {
		case p.Total == 0:
		case p.Free == topology.None:
			out = append(out, fmt.Sprintf("huge pages of %s: %d", words.Size(p.Size), p.Total))
		default:
			out = append(out, fmt.Sprintf("huge pages of %s: %d of %d free", words.Size(p.Size), p.Free, p.Total))
		}
	}
	return out
}

// maxMatrix nodes still make a matrix of 80 columns with its order of nearness.
const maxMatrix = 10

func (d *drawing) distances() {
	h := d.host
	if len(h.Nodes) < 2 {
		return
	}
	if h.Distances == nil {
		d.heading("SLIT distances", "  unknown")
		return
	}
	d.heading("SLIT distances", "  relative, 10 is local; not a latency")
	if len(h.Nodes) > maxMatrix {
		d.nearLists()
		return
	}
	head, known := fmt.Sprintf("%-8s", ""), false
	for _, n := range h.Nodes {
		head += fmt.Sprintf("%4d", n.ID)
	}
	for i, row := range h.Distances {
		known = known || strings.Trim(nearness(h.Nodes, row, i), "?") != ""
	}
	if known {
		head += "   nearest first"
	}
	d.line(d.Dim(head))
	for i, row := range h.Distances {
		line := fmt.Sprintf("%-8s", nodeName(h.Nodes[i].ID))
		for j, v := range row {
			cell := fmt.Sprintf("%4s", number(v))
			if i == j {
				cell = d.Dim(cell)
			}
			line += cell
		}
		if known {
			line += "   " + nearness(h.Nodes, row, i)
		}
		d.line(line)
	}
}

func number(v int) string {
	if v == topology.None {
		return "?"
	}
	return strconv.Itoa(v)
}

// nearLists says for each node which others are how far. Nodes that see each
// other and the rest alike share a line.
func (d *drawing) nearLists() {
	type group struct {
		nodes topology.NodeSet
		words []string
	}
	var groups []*group
	at := map[string]*group{}
	for i, row := range d.host.Distances {
		words, circle := d.nearWords(row, i)
		key := fmt.Sprint(circle, words[min(1, len(words)):])
		if at[key] == nil {
			at[key] = &group{}
			groups = append(groups, at[key])
		}
		at[key].nodes.Add(d.host.Nodes[i].ID)
		at[key].words = words
	}
	width := 0
	label := func(g *group) string {
		if g.nodes.Len() == 1 {
			return "node" + g.nodes.String()
		}
		return "nodes " + g.nodes.String()
	}
	for _, g := range groups {
		width = max(width, min(24, len(label(g))))
	}
	for _, g := range groups {
		words := g.words
		if n := g.nodes.Len(); n > 1 && len(words) > 0 {
			near, _, _ := strings.Cut(words[0], ":")
			words = append([]string{near + ": each other"}, words[1:]...)
		}
		d.wrapped(fmt.Sprintf("%-*s  ", width, label(g)), words, "   ")
	}
}

// nearWords is one row as "12: 1-3", near to far, and the circle of the nearest
// nodes with the row's own.
func (d *drawing) nearWords(row []int, self int) (words []string, circle string) {
	near := map[int]topology.NodeSet{}
	for j, v := range row {
		if j != self {
			s := near[v]
			s.Add(d.host.Nodes[j].ID)
			near[v] = s
		}
	}
	for _, v := range slices.Sorted(maps.Keys(near)) {
		if v != topology.None {
			words = append(words, fmt.Sprintf("%d: %s", v, cpuList(near[v])))
		}
	}
	if unknown, ok := near[topology.None]; ok {
		words = append(words, "?: "+unknown.String())
	}
	if len(words) > 0 {
		value, _, _ := strings.Cut(words[0], ":")
		v, _ := strconv.Atoi(value)
		s := near[v].Clone()
		s.Add(d.host.Nodes[self].ID)
		circle = value + ":" + s.String()
	}
	return words, circle
}

func (d *drawing) measured() {
	m := d.host.Measured
	if m == nil {
		return
	}
	d.floats("Measured latency", "  ns, idle, from row's CPUs to column's memory", m.LatencyNs)
	// as probe and vendors have it
	d.floats("Measured bandwidth", "  GB/s, reading", scaled(m.BandwidthMiBs, (1<<20)/1e9))
}

func scaled(m [][]float64, by float64) [][]float64 {
	out := make([][]float64, len(m))
	for i, row := range m {
		for _, v := range row {
			out[i] = append(out[i], v*by)
		}
	}
	return out
}

func (d *drawing) floats(title, aside string, m [][]float64) {
	if len(m) == 0 {
		return
	}
	// Columns are as narrow as 80 of the screen want; of more nodes than that there is
	// `homenode probe show`.
	cell, label := 6, 8
	if label+cell*len(m) > textWidth {
		cell = len(strconv.Itoa(int(d.host.Nodes[len(m)-1].ID))) + 1
		for _, row := range m {
			for _, v := range row {
				cell = max(cell, len(fmt.Sprintf(" %.0f", v)))
			}
		}
	}
	d.heading(title, aside)
	if label+cell*len(m) > textWidth {
		d.line("too many nodes for a table here; `homenode probe show` has it")
		return
	}
	head := fmt.Sprintf("%-*s", label, "")
	for _, n := range d.host.Nodes {
		head += fmt.Sprintf("%*d", cell, n.ID)
	}
	d.line(d.Dim(head))
	for i, row := range m {
		if !slices.ContainsFunc(row, func(v float64) bool { return v > 0 }) {
			continue // a node without CPUs measures nothing
		}
		line := fmt.Sprintf("%-*s", label, nodeName(d.host.Nodes[i].ID))
		for _, v := range row {
			if v == 0 {
				line += fmt.Sprintf("%*s", cell, "?")
			} else {
				line += fmt.Sprintf("%*.0f", cell, v)
			}
		}
		d.line(line)
	}
}

func (d *drawing) devices() {
	if len(d.host.Devices) == 0 {
		return
	}
	d.heading("Devices", "")
	byNode := map[topology.NodeID]map[topology.DeviceKind][]string{}
	for _, dev := range d.host.Devices {
		if byNode[dev.Node] == nil {
			byNode[dev.Node] = map[topology.DeviceKind][]string{}
		}
		byNode[dev.Node][dev.Kind] = append(byNode[dev.Node][dev.Kind], cmp.Or(dev.GPU, dev.Name))
	}
	print := func(id topology.NodeID, label string) {
		for _, kind := range []topology.DeviceKind{topology.NIC, topology.NVMe, topology.Storage, topology.GPU,
			topology.Accel} {
			if names := byNode[id][kind]; len(names) > 0 {
				d.wrapped(fmt.Sprintf("%-8s%-8s ", label, kind), names, " ")
				label = ""
			}
		}
	}
	for _, n := range d.host.Nodes {
		print(n.ID, nodeName(n.ID))
	}
	print(topology.None, "node ?")
}

func (d *drawing) notes() {
	if len(d.host.Notes) == 0 {
		return
	}
	d.heading("Notes", "")
	for _, n := range d.host.Notes {
		d.wrapped(d.Warn(fmt.Sprintf("%-8s", n.Subject))+"  ", strings.Fields(n.Text), " ")
	}
}
