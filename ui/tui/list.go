package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

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

// homeColumn is the home of a workload, as wide as the longest that names caches. Screens narrower than
// 80 columns have no room for caches: a node says more than a part of both.
func (m *Model) homeColumn(width int) column {
	const least, most = 5, 16
	c := column{"HOME", least, 0, false, plainText(func(w *api.Workload) string { return cmp.Or(w.Home, "-") })}
	if width < 80 {
		return c
	}
	c.text = plainText(func(w *api.Workload) string { return cmp.Or(words.Home(w.Home, w.Caches), "-") })
	for i := range m.status.Workloads {
		w := &m.status.Workloads[i]
		if w.Caches != "" {
			c.width = min(most, max(c.width, len(words.Home(w.Home, w.Caches))))
		}
	}
	return c
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
		{"TIER", 13, 110, false, plainText(func(w *api.Workload) string { return cmp.Or(string(w.Tier), "-") })},
		m.homeColumn(width),
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
