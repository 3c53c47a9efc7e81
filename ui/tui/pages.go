package tui

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/view"
)

// detailPage is one workload.
func (m *Model) detailPage() []string {
	w := m.workload()
	if w == nil {
		return []string{"", "  " + string(m.chosen) + " has ended", ""}
	}
	lines := []string{m.rule(m.name(w), state(w)), ""}
	add := func(name, text string) {
		lines = append(lines, m.entry(dim, name, text)...)
	}
	add("name", m.o.Label(w))
	if w.Cgroup != "" && w.Cgroup != string(w.ID) {
		add("cgroup", w.Cgroup)
	}
	add("class", fmt.Sprintf("%s, importance %d, %s, %.2f CPUs busy", w.Class, w.Importance,
		words.Count(w.CPUs, "vCPU"), w.CPUUse))
	if w.Tier != "" {
		add("tier", string(w.Tier))
	}
	add("home", cmp.Or(words.Home(w.Home, w.Caches), "-"))
	cpus := cmp.Or(w.CPUSet, "-")
	if w.CPUSetPlanned != "" && w.CPUSetPlanned != w.CPUSet {
		cpus += " → " + w.CPUSetPlanned
	}
	add("CPUs", cpus)
	from := ""
	if w.LocalityFrom != "" {
		from = "  by " + string(w.LocalityFrom)
	}
	add("local %", m.locality(w, 24)+from)
	if w.Accesses != nil {
		add("reads", fmt.Sprintf("%.0f million a second reach memory", *w.Accesses/1e6))
	}
	add("memory", memory(w.MemoryKiB))
	for _, n := range w.MemoryByNode {
		share := float64(n.KiB) / float64(max(1, w.MemoryKiB))
		colour := yellow
		if home, err := topology.ParseNodeSet(w.Home); err == nil && home.Has(n.Node) {
			colour = cyan
		}
		lines = append(lines, afterNames+columns(1, left(fmt.Sprint("node ", n.Node), 8), m.bar(share, 24, colour),
			right(fmt.Sprintf("%.0f %%", 100*share), 5), right(memory(n.KiB), 10)))
	}
	if w.Moving() {
		lines = append(lines, "", "  "+m.paint(dim, "moving"), m.move(w))
	}
	if w.Why != "" {
		lines = append(lines, "")
		add("why", w.Why)
	}
	for i, s := range w.Steps {
		name := ""
		if i == 0 {
			name = "steps left"
			lines = append(lines, "")
		}
		add(name, fmt.Sprintf("%s: %s → %s", s.Kind, words.OrAll(s.From), s.To))
	}
	for _, l := range w.Links {
		add("near", l.Name+", "+l.Evidence)
	}
	lines = append(lines, "", m.rule("What happened to it", ""))
	n := 0
	for k := len(m.events) - 1; k >= 0 && n < 20; k-- {
		if e := &m.events[k]; e.Workload == w.ID {
			lines = append(lines, m.wrapped(m.event(e, false), "  ")...)
			n++
		}
	}
	if n == 0 {
		lines = append(lines, m.paint(dim, "  nothing since top was started"))
	}
	return lines
}

// nameColumn holds the names of a page, the longest and a space: "since start".
const nameColumn = 12

// afterNames indents the texts to the column after the names.
var afterNames = strings.Repeat(" ", 2+nameColumn)

// entry is a name in a colour and its text.
func (m *Model) entry(sgr, name, text string) []string {
	lines := m.wrapped(text, afterNames)
	lines[0] = "  " + m.paint(sgr, left(name, nameColumn)) + strings.TrimLeft(lines[0], " ")
	return lines
}

// explanationPage is what `homenode explain` says.
func (m *Model) explanationPage() []string {
	switch x := m.explains; {
	case x == nil:
		return []string{"", "  asking the daemon"}
	case x.err != nil:
		return append([]string{""}, m.wrapped(words.Printable(x.err.Error()), "  ")...)
	default:
		text := strings.TrimRight(m.o.Explain(x.x, view.Paint{On: m.o.Colour, Width: m.width}), "\n")
		return strings.Split(text, "\n")
	}
}

// helpPage says what keys do and what is shown.
func (m *Model) helpPage() []string {
	lines := []string{m.rule("Keys", ""), ""}
	for _, k := range [][2]string{
		{"↑ ↓ j k", "choose a workload; PgUp, PgDn, g, G go far"},
		{"enter", "one workload in detail"},
		{"e", "why it is where it is, or was not moved"},
		{"s S", "sort by the next, the previous column"},
		{"/", "show those whose name, class or state has a text"},
		{"p", "stand still, and go on"},
		{"← →", "other nodes, where not all fit"},
		{"m", "move the chosen workload to other nodes"},
		{"x", "stop its page move"},
		{"u U", "undo what was changed of it, of all; it is left alone then"},
		{"r R", "manage it, all, again"},
		{"q esc", "back; q in the list ends top"},
	} {
		lines = append(lines, "  "+m.paint(bold, left(k[0], nameColumn))+k[1])
	}
	lines = append(lines, "", "  Whatever changes something asks first.", "", m.rule("What is shown", ""), "")
	for _, k := range [][2]string{
		{"▁▃▅█", "local share of online work, 15 minutes at most; the bottom is 0 %, the top 100 %"},
		{"since start",
			"that share when the daemon started and now, page moves that ended; batch work does not count in it"},
		{"CPU", "CPUs of a node that are busy, of all; CPU % where columns are narrow"},
		{"MEM", "memory of it in use, without what the kernel can reclaim, of all; or MEM %"},
		{"GB/s",
			"traffic of its memory; the bar is the share of what was measured (`homenode probe`), else of the " +
				"busiest node"},
		{"vCPUs", "what is booked on its CPUs; above 100 % they are shared"},
		{"ONLINE", "CPUs that online work keeps busy, of those that no dedicated work holds; while sharing is on"},
		{"BATCH", "CPUs that batch work keeps busy, of those that it has now; while sharing is on"},
		{"GOALS",
			"tightest latency goal, the use of the CPUs that it allows, and its slack in the last minutes; 0 % is " +
				"its limit"},
		{"WAIT", "share of the time in which some task of the host waited for it (PSI)"},
		{"LOCAL %", "memory accesses that stay on the node, now → after what is planned"},
	} {
		lines = append(lines, m.entry(bold, k[0], k[1])...)
	}
	if len(m.o.Stories) > 0 {
		lines = append(lines, m.entry(bold, "1 to 4", "play another story of the demo, or the same anew")...)
	}
	return append(lines, afterNames+m.gain(0.5, 0.75, 16)+"  █ now, ▒ to come, ░ stays remote", "")
}
