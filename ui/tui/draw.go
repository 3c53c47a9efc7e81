package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/ui/view"
)

// Colours of ECMA-48 (SGR), which every terminal has and whose user has chosen how they look.
// None tells what a word or a length does not tell too; blue, cyan and yellow stay apart for the
// colour-blind.
const (
	bold   = "1"
	dim    = "2"
	blue   = "34"
	cyan   = "36"
	yellow = "33"
	red    = "31"
	green  = "32"
)

// paint is text in a colour.
func (m *Model) paint(sgr, text string) string {
	if !m.o.Colour || text == "" || sgr == "" {
		return text
	}
	end := "39"
	if sgr == bold || sgr == dim {
		end = "22"
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[" + end + "m"
}

// cut is text in so many columns at most.
func cut(text string, width int) string { return ansi.Truncate(text, max(0, width), "…") }

// left is text in just so many columns.
func left(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// right is the same with the text at the end.
func right(text string, width int) string {
	text = cut(text, width)
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}

// eighths are the parts of a full cell of a bar.
var eighths = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// bar is a share, 0 to 1, as a bar of so many columns.
func (m *Model) bar(share float64, width int, sgr string) string {
	width = max(0, width)
	n := int(min(1, max(0, share))*float64(width)*8 + 0.5)
	full := strings.Repeat("█", n/8)
	if n%8 > 0 {
		full += eighths[n%8]
	}
	return m.paint(sgr, full) + m.paint(dim, strings.Repeat("░", max(0, width-ansi.StringWidth(full))))
}

// gain is a share as it is now and as it will be.
func (m *Model) gain(now, then float64, width int) string {
	at := func(share float64) int { return int(min(1, max(0, share))*float64(width) + 0.5) }
	a, b := at(now), at(max(now, then))
	return m.paint(local(now), strings.Repeat("█", a)) + m.paint(green, strings.Repeat("▒", b-a)) +
		m.paint(dim, strings.Repeat("░", width-b))
}

// local is the colour of a locality, busy that of a load.
func local(share float64) string {
	if share < 0.8 {
		return yellow
	}
	return cyan
}

func busy(share float64) string {
	switch {
	case share >= 0.95:
		return red
	case share >= 0.8:
		return yellow
	}
	return cyan
}

// rule is a line that begins a section.
func (m *Model) rule(title, more string) string {
	text := "── " + title + " "
	if more != "" {
		more = " " + more + " ──"
	}
	fill := m.width - ansi.StringWidth(text) - ansi.StringWidth(more)
	if fill < 2 {
		more, fill = "", m.width-ansi.StringWidth(text)
	}
	return m.paint(dim, "── ") + m.paint(bold, title) + m.paint(dim, " "+strings.Repeat("─", max(0, fill))+more)
}

// columns joins what stands side by side, each of which has its width already.
func columns(gap int, parts ...string) string { return strings.Join(parts, strings.Repeat(" ", gap)) }

// wrapped is text on lines as wide as the screen.
func (m *Model) wrapped(text, indent string) []string {
	var out []string
	for line := range strings.SplitSeq(view.Paint{Width: max(20, m.width-len(indent)-1)}.Hang(text, 0), "\n") {
		out = append(out, indent+line)
	}
	return out
}

// fit is lines within the screen: each within the width and, where there is a height, as many as
// fit.
func (m *Model) fit(lines []string) []string {
	if m.height > 0 && len(lines) > m.height {
		lines = lines[:m.height]
	}
	for i := range lines {
		if m.width > 0 && ansi.StringWidth(lines[i]) > m.width {
			lines[i] = cut(lines[i], m.width)
		}
		if m.o.ASCII {
			lines[i] = view.ASCII(lines[i])
		}
	}
	return lines
}

// state is what a workload is at, and how far.
func state(w *api.Workload) string {
	if w.State == api.StateMoving && w.Move != nil && w.Move.Planned > 0 {
		return fmt.Sprintf("moving %.0f %%", 100*moved(w))
	}
	return w.State
}

// moved is the share of a page move that is done.
func moved(w *api.Workload) float64 {
	return min(1, max(0, float64(w.Move.Moved)/float64(max(1, w.Move.Planned))))
}

func stateColour(w *api.Workload) string {
	switch w.State {
	case api.StateMoving:
		return green
	case api.StateQueued, api.StateWouldMove:
		return blue
	case api.StatePaused, api.StateFailed, api.StateNoRoom, api.StateNoAnswer:
		return yellow
	case api.StateLeftAlone, api.StateHeld:
		return dim
	}
	return ""
}

// name is what a workload is called in a table: without what all of its kind have in front and
// behind.
func (m *Model) name(w *api.Workload) string {
	name := m.o.Label(w)
	if strings.HasPrefix(name, "/") {
		name = name[strings.LastIndexByte(name, '/')+1:]
		name = strings.TrimSuffix(name, ".service")
	}
	return name
}
