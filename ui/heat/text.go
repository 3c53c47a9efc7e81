package heat

import (
	"fmt"
	"math"
	"strings"

	"github.com/homenode/homenode/ui/view"
)

// Style is what a terminal can show.
type Style struct {
	Colour bool
	True   bool // 24 bit colour
	ASCII  bool
	Width  int // columns; 0 is no terminal, and no limit
}

// Text draws a map for a terminal: its tables beside each other where they fit, else one
// under the other, a wide one with fewer digits or in blocks of columns.
func (m Map) Text(s Style) string {
	var b strings.Builder
	p := view.Paint{Width: s.Width}
	p.Wrap(&b, fmt.Sprintf("%s: %s (rows) to %s (columns)", m.Title, m.Row, m.Col), "")
	var line []block // beside each other
	width := 0
	for i, t := range m.Tables {
		for _, next := range m.blocks(t, i == 0, s) {
			if len(line) > 0 && s.Width > 0 && width+4+next.width > s.Width {
				print(&b, line)
				line, width = nil, 0
			}
			if len(line) > 0 {
				width += 4
			}
			line, width = append(line, next), width+next.width
		}
	}
	print(&b, line)
	for _, f := range m.Foot {
		p.Wrap(&b, f, "  ")
	}
	out := b.String()
	if s.ASCII {
		out = view.ASCII(out)
	}
	return out
}

// block is lines of the same width; colour does not count.
type block struct {
	lines []string
	width int
}

func print(b *strings.Builder, line []block) {
	if len(line) == 0 {
		return // a map without columns
	}
	for i := range line[0].lines {
		var text strings.Builder
		for k, part := range line {
			if k > 0 {
				text.WriteString("    ")
			}
			text.WriteString(part.lines[i])
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
}

// blocks is a table as one block, or as several where it is wider than the terminal.
func (m Map) blocks(t Table, coloured bool, s Style) []block {
	label := 0
	for _, r := range m.Rows {
		label = max(label, len([]rune(r)))
	}
	smallest := math.Inf(1)
	for _, row := range t.Cells {
		for _, c := range row {
			if c.Value < smallest {
				smallest = c.Value
			}
		}
	}
	// Two columns between the cells, one when that does not fit, then fewer digits, none
	// where a whole number is too coarse.
	between, digits := 2, t.Digits
	cell := func() int {
		w := 1
		for j, col := range m.Cols {
			w = max(w, len([]rune(col)))
			for i := range m.Rows {
				w = max(w, len(t.Cells[i][j].number(digits)))
			}
		}
		return between + w
	}
	need := func() int { return max(len(t.Title), label+len(m.Cols)*cell()) }
	for s.Width > 0 && need() > s.Width {
		if between > 1 {
			between = 1
		} else if digits > 1 || (digits == 1 && smallest >= 10) {
			digits--
		} else {
			break
		}
	}
	w, each := cell(), len(m.Cols)
	if s.Width > 0 {
		each = min(each, max(1, (s.Width-label)/w))
	}
	var out []block
	for from := 0; from < len(m.Cols); from += each {
		cols := m.Cols[from:min(from+each, len(m.Cols))]
		all := max(len(t.Title), label+len(cols)*w)
		ids := strings.Repeat(" ", label)
		for _, c := range cols {
			ids += left(c, w)
		}
		blk := block{lines: []string{right(t.Title, all), right(ids, all)}, width: all}
		for i, r := range m.Rows {
			line := left(r, label)
			for j := range cols {
				c := t.Cells[i][from+j]
				text := left(c.Mark+c.number(digits), w)
				if coloured {
					text = text[:between-1] + s.paint(text[between-1:], m.colours, c)
				}
				line += text
			}
			blk.lines = append(blk.lines, line+strings.Repeat(" ", all-label-len(cols)*w))
		}
		out = append(out, blk)
	}
	return out
}

func left(s string, width int) string {
	return strings.Repeat(" ", max(0, width-len([]rune(s)))) + s
}

func right(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-len([]rune(s))))
}

func (s Style) paint(text string, r ramp, c Cell) string {
	if !s.Colour || math.IsNaN(c.Ratio) || math.IsNaN(c.Value) {
		return text
	}
	colour := r.at(c.Ratio)
	ground := fmt.Sprintf("2;%d;%d;%d", colour.r, colour.g, colour.b)
	if !s.True {
		var n int
		n, colour = colour.xterm()
		ground = fmt.Sprintf("5;%d", n)
	}
	ink := 231 // white and black of the cube, which no theme changes
	if colour.light() {
		ink = 16
	}
	return fmt.Sprintf("\x1b[48;%sm\x1b[38;5;%dm%s\x1b[0m", ground, ink, text)
}
