package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

// paint colours text, or does not (NO_COLOR, TERM=dumb, not a terminal).
type paint struct{ on bool }

func (e *Env) paint() paint {
	w := e.Stdout
	if o, ok := w.(*checkedOutput); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	return paint{ok && isTerminal(f) && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (p paint) with(s lipgloss.Style, text string) string {
	if !p.on {
		return text
	}
	return s.Render(text)
}

func (p paint) bold(s string) string { return p.with(lipgloss.NewStyle().Bold(true), s) }
func (p paint) dim(s string) string  { return p.with(lipgloss.NewStyle().Faint(true), s) }
func (p paint) good(s string) string { return p.with(lipgloss.NewStyle().Foreground(lipgloss.Cyan), s) }
func (p paint) warn(s string) string {
	return p.with(lipgloss.NewStyle().Foreground(lipgloss.Yellow), s)
}

// state is coloured by what it asks of the reader; blue and yellow stay apart
// for the colour-blind too.
func (p paint) state(s string) string {
	switch {
	case s == "at home":
		return p.good(s)
	case s == "left alone" || s == "held":
		return p.dim(s)
	}
	return p.warn(s)
}

// table is columns of text, wide as their widest cell. A heading that begins
// with > aligns to the right.
type table struct {
	right []bool
	rows  [][]string
}

func newTable(headings ...string) *table {
	t := &table{}
	for i, h := range headings {
		t.right = append(t.right, strings.HasPrefix(h, ">"))
		headings[i] = strings.TrimPrefix(h, ">")
	}
	t.rows = append(t.rows, headings)
	return t
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer, p paint) {
	width := make([]int, len(t.right))
	for _, r := range t.rows {
		for i, cell := range r {
			width[i] = max(width[i], ansi.StringWidth(cell))
		}
	}
	for n, r := range t.rows {
		var line strings.Builder
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-ansi.StringWidth(cell))
			if n == 0 {
				cell = p.dim(cell)
			}
			if t.right[i] {
				cell, pad = pad+cell, ""
			}
			line.WriteString(cell + pad + "  ")
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func kib(n int64) string {
	if n < 0 {
		return "?"
	}
	return humanize.IBytes(uint64(n) * 1024)
}

// shorten keeps the end of a long name: that is where cgroup paths differ.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return s
}
