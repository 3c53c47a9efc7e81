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
	"github.com/homenode/homenode/core/words"
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
		return []string{fmt.Sprintf("%d×%d is too small;", m.width, m.height),
			fmt.Sprintf("top needs %d×%d.", leastWidth, leastHeight), "q ends it."}
	case m.height == 0:
		head := slices.Concat([]string{m.header()}, m.since(), m.nodes(), m.pressure(), m.goals())
		return slices.Concat(head, m.moves(0), m.table(0), m.decisions(10))
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
		body = slices.Concat(m.nodes(), m.pressure(), m.goals())
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
		lines = append(slices.Clone(lines[:room-1]),
			m.paint(dim, fmt.Sprintf("  %s below: ↓", words.Count(len(lines)-room+1, "line"))))
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
			add(s.Mode + ", " + m.paint(yellow, fmt.Sprintf("trial %s: %s, block %d of %d", s.Trial.Name, s.Trial.Arm,
				s.Trial.Block, s.Trial.Blocks)))
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
		live = m.paint(red, "○") + " no answer for " +
			words.Count(int(m.seen.Sub(m.lostAt).Round(time.Second).Seconds())+1, "second")
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
	if t == nil {
		return ""
	}
	return m.curve(t.Local, width)
}

// curve is the points of a share, 0 to 1, in so many columns at most; a gap where one is unknown.
func (m *Model) curve(points []*float64, width int) string {
	if len(points) < 2 || width <= 0 {
		return ""
	}
	n := min(width, len(points))
	var b strings.Builder
	for i := range n { // each column is the newest of the points that it stands for
		point := points[(i+1)*len(points)/n-1]
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
	// all is local there
	if now, _ := m.status.Locality(); now != nil && t.First != nil && !(m.status.OneNode() && *t.First >= 0.995) {
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

// Room for a goal on a line of 80 columns, columns.
const longestName, longestGoal = 12, 17

// goals is the latency goal that decides how much batch work runs, its slack over the last minutes, and the use that
// it allows: one line while there are goals.
func (m *Model) goals() []string {
	s := m.status.Sharing
	if s == nil || len(s.Goals) == 0 {
		return nil
	}
	var part []string
	g := s.Decides()
	if g == nil {
		part = append(part, m.paint(yellow, "no metric can be used"))
	} else {
		colours := map[string]string{"held": green, "near": yellow, "missed": red}
		name := ansi.Truncate(words.Printable(g.Name(m.status.Workloads)), longestName, "…")
		text := ansi.Truncate(words.Printable(g.Text()), longestGoal, "…")
		part = append(part, name+" "+text+" "+m.paint(colours[g.State], g.State))
	}
	if s.Use != nil {
		part = append(part, fmt.Sprintf("use up to %.0f %%", 100**s.Use))
	}
	if t := m.status.Trend; t != nil && g != nil && g.Slack != nil {
		curve := m.curve(t.Slack, min(30, max(8, m.width-78)))
		part = append(part, strings.TrimLeft(curve+fmt.Sprintf(" %.0f %%", 100**g.Slack), " ")+" slack")
	}
	return []string{m.paint(dim, left("GOALS", nodeLabel)) + strings.Join(part, m.paint(dim, " · "))}
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
		line += left(p.Resource, 7) + m.bar(p.Some/100, 8, busy(0.7+p.Some/100)) + right(fmt.Sprintf("%.0f %%", p.Some),
			6) + "   "
	}
	return []string{strings.TrimRight(line, " ")}
}

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
	width := cmp.Or(m.width, 100)
	bar, gap := min(40, max(6, width-100)), 1
	if width >= 100 {
		gap = 2
	}
	to := left("→ "+words.Nodes(mv.Home), 9)
	amount := right(amounts(mv.Moved, mv.Planned), 15)
	name := min(50, max(10, width-1-bar-6-15-9-9-4*gap))
	return " " + columns(gap, left(m.name(w), name),
		m.bar(moved(w), bar, green)+right(fmt.Sprintf("%.0f %%", 100*moved(w)), 6), amount, to, how)
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
		if e.Error || (e.Kind != plan.EventStep && e.Kind != plan.EventWorkload) {
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
		return []string{m.paint(bold, "show those with: ") + m.filter + "_" +
			m.paint(dim, "   enter keeps it, esc takes it away")}
	case m.to != nil:
		return []string{m.paint(bold, "move "+m.label()+" to nodes: ") + *m.to + "_" +
			m.paint(dim, "   such as 1 or 0-1; enter asks, esc ends")}
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
	return []string{m.keys("?", "help", "q", "quit", "enter", "detail", "e", "explain", "s", "sort", "/", "filter", "p",
		"pause", "m", "move", "u", "undo", "↑↓", "choose")}
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
