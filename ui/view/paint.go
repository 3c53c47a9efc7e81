package view

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Paint colours text, or does not (NO_COLOR, TERM=dumb, not a terminal).
type Paint struct {
	On    bool
	Width int // columns of the terminal; 0 is no terminal, and no limit
}

// PaintOf is the paint for what is written to w.
func PaintOf(w io.Writer, getenv func(string) string) Paint {
	f := terminal(w)
	if f == nil {
		return Paint{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return Paint{getenv("NO_COLOR") == "" && getenv("TERM") != "dumb", width}
}

// leastText is how narrow text may get before a line that is too long reads better.
const leastText = 20

// Hang is text for a terminal: what does not fit beside an indent of so many columns goes
// on below, under where it began.
func (p Paint) Hang(text string, indent int) string {
	if p.Width == 0 || p.Width-indent < leastText || indent+ansi.StringWidth(text) <= p.Width {
		return text
	}
	return strings.ReplaceAll(ansi.Wordwrap(text, p.Width-indent, ""), "\n", "\n"+strings.Repeat(" ", indent))
}

func (p Paint) with(s lipgloss.Style, text string) string {
	if !p.On {
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

// Warn is text that asks something of the reader.
func (p Paint) Warn(s string) string {
	return p.with(lipgloss.NewStyle().Foreground(lipgloss.Yellow), s)
}

// Wrap breaks text at 96 columns, or at what a narrower terminal has; further lines stand
// two columns in.
func (p Paint) Wrap(b *strings.Builder, text, indent string) {
	width := 96
	if p.Width >= 2*leastText {
		width = min(width, p.Width)
	}
	line := indent
	first := true
	for word := range strings.FieldsSeq(text) {
		if !first && ansi.StringWidth(line)+1+ansi.StringWidth(word) > width {
			b.WriteString(line + "\n")
			line = indent + "  " + word
			continue
		}
		if !first {
			line += " "
		}
		line += word
		first = false
	}
	b.WriteString(line + "\n")
}
