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
type paint struct {
	on    bool
	width int // columns of the terminal; 0 is no terminal, and no limit
}

func (e *Env) paint() paint {
	w := e.Stdout
	if o, ok := w.(*checkedOutput); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return paint{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return paint{e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb", width}
}

// hang is text for a terminal: what does not fit beside an indent of so many columns goes
// on below, under where it began.
func (p paint) hang(text string, indent int) string {
	if p.width == 0 || p.width-indent < leastText || indent+ansi.StringWidth(text) <= p.width {
		return text
	}
	return strings.ReplaceAll(ansi.Wordwrap(text, p.width-indent, ""), "\n", "\n"+strings.Repeat(" ", indent))
}

// leastText is how narrow text may get before a line that is too long reads better.
const leastText = 20

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
	for n, columns := range t.blocks(width, p.width) {
		if n > 0 {
			fmt.Fprintln(w)
		}
		t.block(w, p, width, columns)
	}
}

// blocks is which columns are printed beside each other: all, or on a terminal that is
// too narrow as many as fit, the first one again in each. The last is text that may go
// on below itself.
func (t *table) blocks(width []int, most int) [][]int {
	blocks, used := [][]int{{0}}, width[0]
	for i := 1; i < len(width); i++ {
		need := width[i]
		if i == len(width)-1 && !t.right[i] {
			need = min(need, leastText)
		}
		if used += 2 + need; most > 0 && used > most && len(blocks[len(blocks)-1]) > 1 {
			blocks, used = append(blocks, []int{0}), width[0]+2+need
		}
		last := &blocks[len(blocks)-1]
		*last = append(*last, i)
	}
	return blocks
}

func (t *table) block(w io.Writer, p paint, width, columns []int) {
	for n, r := range t.rows {
		var line strings.Builder
		at := 0
		for _, i := range columns {
			if i >= len(r) {
				break
			}
			cell := r[i]
			pad := strings.Repeat(" ", width[i]-ansi.StringWidth(cell))
			if i == len(width)-1 && !t.right[i] {
				cell = p.hang(cell, at)
			}
			if n == 0 {
				cell = p.dim(cell)
			}
			if t.right[i] {
				cell, pad = pad+cell, ""
			}
			line.WriteString(cell + pad + "  ")
			at += width[i] + 2
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
