package view

import (
	"io"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Paint colours text, or does not (NO_COLOR, TERM=dumb, not a terminal).
type Paint struct {
	On    bool
	Width int // columns that a line may have; 0 is no limit
}

// PaintOf is the paint for what is written to w.
func PaintOf(w io.Writer, getenv func(string) string) Paint {
	return Paint{Terminal(w) != nil && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb", columns(w, getenv)}
}

// columns is how wide lines for w may be: what COLUMNS says, else what the terminal has. A
// pipe or a file has no limit: there a row is a line, as grep wants it.
func columns(w io.Writer, getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, leastText)
	}
	f := Terminal(w)
	if f == nil {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil || n <= 0 {
		return 0
	}
	return max(n, leastText)
}

// leastText is how narrow text may get before a line that is too long reads better.
const leastText = 20

// Hang is text for a terminal: what does not fit beside an indent of so many columns goes
// on below, under where it began.
func (p Paint) Hang(text string, indent int) string {
	if p.Width == 0 || p.Width-indent < leastText || indent+ansi.StringWidth(text) <= p.Width {
		return text
	}
	return strings.Join(wrap(text, p.Width, indent, indent), "\n"+strings.Repeat(" ", indent))
}

func (p Paint) with(s lipgloss.Style, text string) string {
	if !p.On || text == "" {
		return text
	}
	return s.Render(text)
}

// Bold, Dim, Good and Warn say what text is; blue and yellow stay apart for the
// colour-blind too.
func (p Paint) Bold(s string) string { return p.with(lipgloss.NewStyle().Bold(true), s) }

// Dim is text that is there for whoever looks for it.
func (p Paint) Dim(s string) string { return p.with(lipgloss.NewStyle().Faint(true), s) }

// Good is text that asks nothing of the reader.
func (p Paint) Good(s string) string { return p.with(lipgloss.NewStyle().Foreground(lipgloss.Cyan), s) }

// Best is what a reader is glad to see.
func (p Paint) Best(s string) string {
	return p.with(lipgloss.NewStyle().Foreground(lipgloss.Green), s)
}

// Warn is text that asks something of the reader.
func (p Paint) Warn(s string) string {
	return p.with(lipgloss.NewStyle().Foreground(lipgloss.Yellow), s)
}

// mostText is how wide text may get before the eye loses the line.
const mostText = 96

// Wrap writes text as a paragraph: on a terminal at most 96 columns wide, further lines two
// columns further in; elsewhere one line.
func (p Paint) Wrap(b *strings.Builder, text, indent string) {
	text = indent + strings.Join(strings.Fields(text), " ")
	b.WriteString(fold(text, min(mostText, p.Width)) + "\n")
}

// Fill writes text as a paragraph without an indent, at most 96 columns wide.
func (p Paint) Fill(b *strings.Builder, text string) {
	width := mostText
	if p.Width > 0 {
		width = min(width, p.Width)
	}
	b.WriteString(strings.Join(wrap(strings.Join(strings.Fields(text), " "), width, 0, 0), "\n") + "\n")
}
