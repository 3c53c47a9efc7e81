package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/figures"
)

const (
	// All is shown from this size on; on a smaller screen what matters most.
	wantWidth, wantHeight = 80, 24
	// leastWidth and leastHeight are what a table of names and states needs.
	leastWidth, leastHeight = 40, 8
)

// Frame is what fills the screen now: lines that are no wider, and no more, than it has room for.
func (m *Model) Frame() string { return strings.Join(m.fit(m.lines()), "\n") }

func (m *Model) lines() []string {
	switch {
	case m.height > 0 && (m.width < leastWidth || m.height < leastHeight):
		return []string{fmt.Sprintf("%d×%d is too small;", m.width, m.height), fmt.Sprintf("top needs %d×%d.", leastWidth, leastHeight), "q ends it."}
	case m.height == 0:
		return slices.Concat([]string{m.header()}, m.since(), m.nodes(), m.pressure(), m.moves(0), m.table(0), m.decisions(10))
	}
	head, foot := []string{m.header()}, m.footer()
	if m.have && m.width >= wantWidth && m.height >= wantHeight {
		head = append(head, m.since()...)
		head = append(head, m.stories()...)
	}
	room := m.height - len(head) - len(foot)
	var body []string
	switch {
	case m.page == help:
		body = m.scrolled(m.helpPage(), room)
	case !m.have:
		body = []string{"", "  waiting for the daemon to answer"}
		if m.lost != nil {
			body = append([]string{""}, m.wrapped(words.Printable(m.lost.Error()), "  ")...)
		}
	case m.page == detail:
		body = m.scrolled(m.detailPage(), room)
	case m.page == explanation:
		body = m.scrolled(m.explanationPage(), room)
	case m.width < wantWidth || m.height < wantHeight:
		body = m.table(room)
	default:
		body = append(m.nodes(), m.pressure()...)
		some, events := min(6, max(2, (m.height-20)/4)), min(12, max(2, (m.height-18)/4))
		body = append(body, m.moves(some)...)
		body = append(body, m.table(room-len(body)-events-1)...)
		body = append(body, m.decisions(room-len(body)-1)...)
	}
	for len(body) < room {
		body = append(body, "")
	}
	return slices.Concat(head, body[:room], foot)
}

// scrolled is the part of a page that is on the screen.
func (m *Model) scrolled(lines []string, room int) []string {
	m.bottom = max(0, len(lines)-room)
	m.top = min(m.top, m.bottom)
	lines = lines[m.top:]
	if len(lines) > room {
		lines = append(slices.Clone(lines[:room-1]), m.paint(dim, fmt.Sprintf("  %s below: ↓", words.Count(len(lines)-room+1, "line"))))
	}
	return lines
}

// header is the daemon, the machine in a line, and whether what is shown is of now.
func (m *Model) header() string {
	s := &m.status
	version, _, _ := strings.Cut(s.Version, "+") // the name of the build would push aside what it shows
	parts := []string{m.paint(bold, "homenode "+version)}
	if !m.have {
		parts[0] = m.paint(bold, "homenode top")
	}
	if m.o.Title != "" {
		parts[0] = m.paint(bold, m.o.Title)
	}
	if m.have && m.height > 0 && m.width < wantWidth { // what it shows matters more than who
		parts = nil
	}
	add := func(part string) { parts = append(parts, part) }
	if m.have {
		if now, then := s.Locality(); s.OneNode() && s.Settled() {
			add(m.paint(green, strings.TrimSuffix(words.Because(words.SingleNode).String(), ".")))
		} else if now != nil {
			part := m.paint(bold, fmt.Sprintf("%.0f %% local", 100**now))
			if *then-*now >= 0.005 && (m.o.Link == "" || m.width >= 100) {
				part += fmt.Sprintf(" → %.0f %%", 100**then)
			}
			add(strings.TrimLeft(m.spark(min(60, max(8, m.width-80)))+" "+part, " "))
		}
		switch {
		case s.Trial != nil:
			add(s.Mode + ", " + m.paint(yellow, fmt.Sprintf("trial %s: %s, block %d of %d", s.Trial.Name, s.Trial.Arm, s.Trial.Block, s.Trial.Blocks)))
		case s.Held:
			add(s.Mode + ", " + m.paint(yellow, "all undone"))
		case m.o.Link == "" || m.width >= 100:
			add(s.Mode)
		}
		if m.o.Link != "" {
			add(m.o.Link)
		}
		if n := len(s.Problems); n > 0 {
			add(m.paint(yellow, "! "+words.Count(n, "problem")))
		}
	}
	live := m.paint(cyan, "●") + " live"
	switch {
	case m.paused:
		live = m.paint(yellow, "‖ paused")
	case m.lost != nil:
		live = m.paint(red, "○") + " no answer for " + words.Count(int(m.seen.Sub(m.lostAt).Round(time.Second).Seconds())+1, "second")
	case !m.have:
		live = "○ asking"
	}
	if m.have {
		live += "  " + m.paint(dim, m.clock(s.Time, time.TimeOnly))
	}
	dot := m.paint(dim, " · ")
	if m.height == 0 {
		return strings.Join(parts, dot) + "  " + m.paint(dim, m.clock(s.Time, time.DateTime))
	}
	room := m.width - ansi.StringWidth(live) - 1
	if len(parts) > 1 && ansi.StringWidth(strings.Join(parts, dot)) > room && m.o.Link != "" { // else the link is cut
		parts = parts[1:]
	}
	return left(strings.Join(parts, dot), room) + " " + live
}

// sparks are the levels of a spark, an eighth each.
var sparks = []rune("▁▂▃▄▅▆▇█")

// spark is the local share of online work in the last minutes, in so many columns at most: the
// bottom is 0 %, the top 100 %.
func (m *Model) spark(width int) string {
	t := m.status.Trend
	if t == nil || len(t.Local) < 2 || width <= 0 {
		return ""
	}
	n := min(width, len(t.Local))
	var b strings.Builder
	for i := range n { // each column is the newest of the points that it stands for
		point := t.Local[(i+1)*len(t.Local)/n-1]
		if point == nil {
			b.WriteRune(' ')
			continue
		}
		b.WriteRune(sparks[min(len(sparks)-1, max(0, int(*point*float64(len(sparks)))))])
	}
	return m.paint(cyan, b.String())
}

// since is what has come of it since the daemon started.
func (m *Model) since() []string {
	t := m.status.Trend
	if t == nil {
		return nil
	}
	part := []string{"since start, " + words.Lasts(m.status.Time.Sub(t.Since))}
	if now, _ := m.status.Locality(); now != nil && t.First != nil && !(m.status.OneNode() && *t.First >= 0.995) { // all is local there
		part[0] += fmt.Sprintf(": %.0f → %.0f %% local", 100**t.First, 100**now)
	}
	switch {
	case m.status.Mode != "enforce":
		part = append(part, "homenode only watches")
	case t.Moves == 0:
		part = append(part, "no page moves")
	default:
		part = append(part, words.Count(t.Moves, "page move")+", "+words.Bytes(t.MovedBytes))
	}
	if n, cpus := m.status.Batch(); n > 0 {
		part = append(part, fmt.Sprintf("batch: %.0f CPUs", cpus))
	}
	return []string{strings.Join(part, m.paint(dim, " · "))}
}

// stories is the stories of a demo with their keys.
func (m *Model) stories() []string {
	if len(m.o.Stories) == 0 {
		return nil
	}
	var part []string
	for i, story := range m.o.Stories {
		text := fmt.Sprint(i+1, " ", story.Title)
		if i == m.story {
			part = append(part, m.paint(cyan, m.paint(bold, "["+text+"]")))
		} else {
			part = append(part, " "+text+" ")
		}
	}
	line := strings.Join(part, " ")
	if what := m.o.Stories[m.story].What; ansi.StringWidth(line+what)+2 <= m.width {
		line += m.paint(dim, "  "+what)
	}
	return []string{strings.TrimRight(line, " ")}
}

// pressure is how long tasks of the host wait (PSI), as bars.
func (m *Model) pressure() []string {
	if len(m.status.Pressure) == 0 {
		return nil
	}
	line := m.paint(dim, left("WAIT", nodeLabel))
	for _, p := range m.status.Pressure {
		line += left(p.Resource, 7) + m.bar(p.Some/100, 8, busy(0.7+p.Some/100)) + right(fmt.Sprintf("%.0f %%", p.Some), 6) + "   "
	}
	return []string{strings.TrimRight(line, " ")}
}

// How wide cells are: the least that shows a bar with a number, the least that shows units too, and
// the most that is worth it.
const leastCell, wordyCell, mostCell, nodeLabel = 9, 23, 48, 8

// nodes is the NUMA nodes side by side.
func (m *Model) nodes() []string {
	all := m.status.Nodes
	if len(all) == 0 {
		return []string{m.paint(dim, "no NUMA node was seen yet")}
	}
	width := m.width
	if width == 0 {
		width = nodeLabel + mostCell*len(all)
	}
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
			text += m.paint(dim, "  CPUs "+dash(shown[i].CPUs))
		}
		first += left(text, cell-gap) + strings.Repeat(" ", gap)
	}
	if title != "" {
		first = left(first, width-ansi.StringWidth(title)) + m.paint(dim, title)
	}
	lines := []string{m.paint(bold, strings.TrimRight(first, " "))}
	for _, r := range rows {
		line := m.paint(dim, left(r.name, nodeLabel))
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
	name string
	of   func(n *api.Node) figure
}

// figures is what is shown of each node, a line each: first what is measured.
func (m *Model) figures() []nodeLine {
	low := m.height > 0 && m.height < 30 // there is no room for what matters less
	var measured, booked []nodeLine
	for i := range figures.Nodes {
		f := &figures.Nodes[i]
		switch {
		case f.Line == "":
		case f.Booked && !low:
			booked = append(booked, nodeLine{f.Line, part(f)})
		case !f.Booked:
			measured = append(measured, nodeLine{f.Line, part(f)})
		}
	}
	all := append(append(measured, nodeLine{"GB/s", m.traffic}), booked...)
	if s := m.status.Sharing; s != nil && len(s.Nodes) > 0 {
		all = append(all, nodeLine{"ONLINE", m.shared(func(b *api.ShareNode) (float64, float64) { return b.Online, float64(b.Pool) })},
			nodeLine{"BATCH", m.shared(func(b *api.ShareNode) (float64, float64) {
				given, _ := topology.ParseCPUSet(b.Given) // whole cores: a part of one more than it may keep busy
				return b.Used, float64(given.Len())
			})})
	}
	return all
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
		return figure{share: use / most, short: short, long: fmt.Sprintf("%.1f/%.0f GB/s", figures.GB(use), figures.GB(most)), colour: busy(use / most)}
	}
	if len(m.status.Nodes) == 1 { // it would be full
		return figure{share: -1, short: short, long: long, colour: cyan}
	}
	return figure{share: use / max(1, m.most()), short: short, long: long, colour: cyan} // the busiest is no more than that
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

func gib(kib int64) float64 { return float64(kib) / (1 << 20) }

// moves is the page moves in flight, at most so many; 0 is all.
func (m *Model) moves(most int) []string {
	var all []*api.Workload
	queued := 0
	for i := range m.status.Workloads {
		w := &m.status.Workloads[i]
		switch {
		case w.Moving():
			all = append(all, w)
		case (w.State == api.StateQueued || w.State == api.StateWouldMove) && gains(w):
			queued++
		}
	}
	slices.SortStableFunc(all, func(a, b *api.Workload) int {
		return cmp.Or(a.Move.Started.Compare(b.Move.Started), cmp.Compare(a.ID, b.ID))
	})
	more := ""
	switch {
	case queued > 0 && m.status.Mode == "observe":
		more = fmt.Sprintf("%d would move", queued)
	case queued > 0:
		more = fmt.Sprintf("%d more to come", queued)
	}
	if most > 0 && len(all) > most {
		more = strings.TrimPrefix(more+fmt.Sprintf(", %d more move", len(all)-most), ", ")
		all = all[:most]
	}
	lines := []string{m.rule("Moving", more)}
	if len(all) == 0 {
		lines = append(lines, m.paint(dim, "  nothing moves"))
	}
	for _, w := range all {
		lines = append(lines, m.move(w))
	}
	for len(lines) <= most { // so that what is below stays where it is
		lines = append(lines, "")
	}
	return lines
}

// gains reports whether more of a workload's memory will be local: others that wait for their turn
// only have settings to come.
func gains(w *api.Workload) bool {
	return w.Locality == nil || w.LocalityExpected == nil || *w.LocalityExpected-*w.Locality >= 0.005
}

// move is one page move: how far, where to, how long it will take.
func (m *Model) move(w *api.Workload) string {
	mv := w.Move
	how := ""
	switch rest, known := mv.Left(); {
	case w.State == api.StatePaused:
		how = m.paint(yellow, "rests: ") + strings.TrimPrefix(w.Why, string(w.ID)+" ")
	case known:
		how = lasts(rest) + " left"
	case mv.Moved <= 0:
		how = "begins"
	}
	width := m.width
	if width == 0 {
		width = 100
	}
	bar, gap := min(40, max(6, width-100)), 1
	if width >= 100 {
		gap = 2
	}
	to := left("→ "+words.Nodes(mv.Home), 9)
	amount := right(amounts(mv.Moved, mv.Planned), 15)
	name := min(50, max(10, width-1-bar-6-15-9-9-4*gap))
	return " " + columns(gap, left(m.name(w), name), m.bar(moved(w), bar, green)+right(fmt.Sprintf("%.0f %%", 100*moved(w)), 6), amount, to, how)
}

// amounts is bytes of bytes, in GiB or MiB.
func amounts(some, all int64) string {
	some, all = max(0, some), max(0, all)
	if all >= 1<<30 {
		return fmt.Sprintf("%.1f of %.1f GiB", float64(some)/(1<<30), float64(all)/(1<<30))
	}
	return fmt.Sprintf("%d of %d MiB", some>>20, all>>20)
}

func lasts(d time.Duration) string { return words.Lasts(max(time.Second, d)) }

// column of the table of workloads.
type column struct {
	head  string
	width int
	from  int // screen width that it is shown from
	right bool
	text  func(w *api.Workload) (text, colour string)
}

func plainText(text func(w *api.Workload) string) func(w *api.Workload) (string, string) {
	return func(w *api.Workload) (string, string) { return text(w), "" }
}

// workloadColumns is what is told of each workload on a screen so wide, how wide its name may be before
// that, and what is between two.
func (m *Model) workloadColumns(width int) (all []column, name, gap int) {
	bar := 6
	gap = 1
	if width >= 110 {
		bar, gap = 12, 2
	}
	all = []column{
		{"CLASS", 9, 94, false, plainText(func(w *api.Workload) string { return string(w.Class) })},
		{"TIER", 13, 110, false, plainText(func(w *api.Workload) string { return dash(string(w.Tier)) })},
		{"HOME", 5, 0, false, plainText(func(w *api.Workload) string { return dash(w.Home) })},
		{"vCPUs", 5, 110, true, plainText(func(w *api.Workload) string { return fmt.Sprint(w.CPUs) })},
		{"CPU", 5, 60, true, plainText(func(w *api.Workload) string { return fmt.Sprintf("%.2f", w.CPUUse) })},
		{"MEMORY", 8, 64, true, plainText(func(w *api.Workload) string { return memory(w.MemoryKiB) })},
		{"LOCAL %", bar + 9, 48, false, func(w *api.Workload) (string, string) { return m.locality(w, bar), "" }},
		{"STATE", 11, 0, false, func(w *api.Workload) (string, string) { return state(w), stateColour(w) }},
		{"WHY", max(0, width-132), 160, false, func(w *api.Workload) (string, string) { return w.Why, dim }},
	}
	if m.status.Sharing == nil {
		all = slices.DeleteFunc(all, func(c column) bool { return c.head == "TIER" })
	} else if width < 110 { // one column for both: the tier where it is not that of the class
		all[0] = column{"CLASS, TIER", 13, 94, false, plainText(func(w *api.Workload) string {
			if w.Tier != workload.Tier("").Of(w.Class) {
				return string(w.Tier)
			}
			return string(w.Class)
		})}
	}
	all = slices.DeleteFunc(all, func(c column) bool { return width < c.from })
	name = width - 1
	for _, c := range all {
		name -= c.width + gap
	}
	if name > 44 && all[len(all)-1].head == "WHY" {
		all[len(all)-1].width += name - 44
		name = 44
	}
	return all, name, gap
}

// table is the workloads in so many lines; 0 is all.
func (m *Model) table(room int) []string {
	all, name, gap := m.workloadColumns(cmp.Or(m.width, 120))
	shown := m.shown()
	title := words.Count(len(shown), "workload")
	if len(shown) < len(m.status.Workloads) {
		title = fmt.Sprintf("%d of %s", len(shown), words.Count(len(m.status.Workloads), "workload"))
	}
	more := ""
	if m.filter != "" {
		more = fmt.Sprintf("with %q, ", m.filter)
	}
	if len(m.o.Orders) > 0 {
		more += "by " + m.o.Orders[m.order].Name
	}
	lines := []string{m.rule(title, more)}
	head := " " + left("WORKLOAD", name)
	for _, c := range all {
		if c.right {
			head += strings.Repeat(" ", gap) + right(c.head, c.width)
		} else {
			head += strings.Repeat(" ", gap) + left(c.head, c.width)
		}
	}
	lines = append(lines, m.paint(dim, strings.TrimRight(head, " ")))
	at := m.at(shown)
	if room > 0 {
		rows := max(1, room-len(lines))
		m.top = max(0, min(m.top, at, len(shown)-rows))
		m.top = max(m.top, at-rows+1)
		shown = shown[m.top:min(len(shown), m.top+rows)]
	}
	for i, w := range shown {
		mark, text := " ", left(m.name(w), name)
		if room > 0 && m.top+i == at {
			mark, text = m.paint(cyan, ">"), m.paint(bold, text)
		}
		line := mark + text
		for k, c := range all {
			text, colour := c.text(w)
			switch {
			case c.right:
				text = right(text, c.width)
			case k == len(all)-1:
				text = cut(text, c.width)
			default:
				text = left(text, c.width)
			}
			line += strings.Repeat(" ", gap) + m.paint(colour, text)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	if len(shown) == 0 {
		text := "  no workload is large enough to be placed"
		if m.filter != "" {
			text = "  no workload fits; esc takes the filter away"
		}
		lines = append(lines, m.paint(dim, text))
	}
	if room > 0 {
		for len(lines) < room {
			lines = append(lines, "")
		}
		lines = lines[:max(0, room)]
	}
	return lines
}

func memory(kib int64) string {
	switch {
	case kib >= 1000<<20:
		return fmt.Sprintf("%.2f TiB", float64(kib)/(1<<30))
	case kib >= 1<<20:
		return fmt.Sprintf("%.1f GiB", gib(kib))
	}
	return fmt.Sprintf("%d MiB", kib>>10)
}

// locality is how local a workload is now and by plan.
func (m *Model) locality(w *api.Workload, bar int) string {
	if w.Locality == nil {
		return m.bar(0, bar, "") + "   -"
	}
	now, then := *w.Locality, *w.Locality
	if w.LocalityExpected != nil {
		then = *w.LocalityExpected
	}
	text := fmt.Sprintf("%4.0f", 100*now)
	if a, b := fmt.Sprintf("%.0f", 100*now), fmt.Sprintf("%.0f", 100*then); a != b {
		text += "→" + b
	}
	return m.gain(now, then, bar) + text
}

// decisions is the newest events but for those of single settings, the newest first.
func (m *Model) decisions(most int) []string {
	lines := []string{m.rule("Decisions", "")}
	var events []api.Told
	known := m.events
	if m.paused {
		known = m.held
	}
	for _, e := range slices.Backward(api.Tell(known)) {
		if len(events) == most {
			break
		}
		if e.Error || e.Kind != plan.EventStep && e.Kind != plan.EventWorkload {
			events = append(events, e)
		}
	}
	for i := range events {
		e := &events[i]
		if e.Before != nil && e.After != nil {
			e.Text += fmt.Sprintf(", local %.0f → %.0f %%", 100**e.Before, 100**e.After)
		}
		lines = append(lines, m.event(&e.Event, true))
	}
	if len(events) == 0 {
		lines = append(lines, m.paint(dim, "  none yet"))
	}
	return lines
}

func (m *Model) event(e *plan.Event, whose bool) string {
	mark := " "
	if e.Error {
		mark = m.paint(yellow, "!")
	}
	text := e.Text
	if id := string(e.Workload); id != "" {
		name := m.name(&api.Workload{ID: e.Workload})
		text = strings.ReplaceAll(text, id, name)
		if strings.Contains(text, name) {
			text = strings.Replace(text, name, m.paint(bold, name), 1)
		} else if whose {
			text = m.paint(bold, name) + " " + text
		}
	}
	return m.paint(dim, m.clock(e.Time, time.TimeOnly)) + mark + text
}

// footer is what keys do, or what is asked or was told.
func (m *Model) footer() []string {
	switch {
	case m.typing:
		return []string{m.paint(bold, "show those with: ") + m.filter + "_" + m.paint(dim, "   enter keeps it, esc takes it away")}
	case m.to != nil:
		return []string{m.paint(bold, "move "+m.label()+" to nodes: ") + *m.to + "_" + m.paint(dim, "   such as 1 or 0-1; enter asks, esc ends")}
	case m.question != nil:
		var lines []string
		for i, text := range m.question {
			if i == 0 {
				text = m.paint(bold, text)
			}
			lines = append(lines, text)
		}
		lines[len(lines)-1] += m.paint(yellow, "  y / n")
		if most := max(1, m.height-5); len(lines) > most {
			lines = lines[len(lines)-most:]
		}
		return lines
	case m.notice != "" && m.bad:
		return []string{m.paint(yellow, "! ") + m.notice}
	case m.notice != "":
		return []string{m.notice}
	case m.asking != "":
		return []string{m.paint(dim, m.asking+" …")}
	case m.lost != nil && m.have:
		return []string{m.paint(yellow, "! ") + words.Printable(m.lost.Error()) + m.paint(dim, "; it is asked again")}
	case m.page != list:
		return []string{m.keys("esc", "back", "?", "help", "↑↓", "scroll", "e", "explain", "m", "move", "u", "undo")}
	case m.width < wantWidth || m.height < wantHeight:
		return []string{cut(fmt.Sprintf("%d×%d and more shows all; ? help, q quit", wantWidth, wantHeight), m.width)}
	}
	return []string{m.keys("?", "help", "q", "quit", "enter", "detail", "e", "explain", "s", "sort", "/", "filter", "p", "pause", "m", "move", "u", "undo", "↑↓", "choose")}
}

func (m *Model) label() string {
	if w := m.workload(); w != nil {
		return m.name(w)
	}
	return string(m.chosen)
}

// keys is pairs of a key and what it does, the ones that matter most first: as many as fit, and
// without what may not be done.
func (m *Model) keys(pairs ...string) string {
	text := ""
	for i := 0; i+1 < len(pairs); i += 2 {
		key, does := pairs[i], pairs[i+1]
		if !m.allowed && (key == "m" || key == "u") {
			continue
		}
		if ansi.StringWidth(text)+ansi.StringWidth(key+does)+3 <= m.width+1 {
			text += m.paint(bold, key) + " " + m.paint(dim, does) + "  "
		}
	}
	return strings.TrimRight(text, " ")
}
