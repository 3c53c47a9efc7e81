package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Table is columns of text, wide as their widest cell. A heading that begins
// with > aligns to the right.
type Table struct {
	right []bool
	rows  [][]string
	drops []string
	names []string
}

// NewTable is a table with these headings.
func NewTable(headings ...string) *Table {
	t := &Table{}
	for i, h := range headings {
		t.right = append(t.right, strings.HasPrefix(h, ">"))
		headings[i] = strings.TrimPrefix(h, ">")
	}
	t.rows = append(t.rows, headings)
	return t
}

// Drops says which columns are left out on a terminal that is too narrow, the first one first.
// All others go after them, from the right.
func (t *Table) Drops(headings ...string) *Table {
	t.drops = headings
	return t
}

// Names says which columns hold names, which may be shortened in the middle. Without it that
// is the first one.
func (t *Table) Names(headings ...string) *Table {
	t.names = headings
	return t
}

// Row adds a row; its cells may be coloured. A name in it may not begin a line.
func (t *Table) Row(cells ...string) {
	for i := range cells {
		cells[i] = inOneLine.Replace(cells[i])
	}
	t.rows = append(t.rows, cells)
}

var inOneLine = strings.NewReplacer("\n", `\n`, "\t", `\x09`)

// Len is how many rows it has, without the headings.
func (t *Table) Len() int { return len(t.rows) - 1 }

const (
	goodName  = 24 // columns that a name keeps while others can go
	goodHang  = 30 // columns that text at the end keeps: in fewer it is more lines than rows
	leastName = 8  // columns that a name keeps in any case
)

// Print writes the table, as wide as the terminal at most: names are shortened, then columns
// are left out, and a line below tells of both.
func (t *Table) Print(w io.Writer, p Paint) {
	width := make([]int, len(t.right))
	for _, r := range t.rows {
		for i, cell := range r {
			width[i] = max(width[i], ansi.StringWidth(cell))
		}
	}
	columns, shown := t.fit(width, p.Width)
	t.print(w, p, columns, shown)
	if note := t.leftOut(columns, width, shown); note != "" {
		const all = "all of it: | less -S" // stays in one piece
		lines := wrap(note+";", max(p.Width, leastText), 0, 0)
		if last := len(lines) - 1; ansi.StringWidth(lines[last])+1+len(all) <= p.Width {
			lines[last] += " " + all
		} else {
			lines = append(lines, all)
		}
		for _, line := range lines {
			fmt.Fprintln(w, p.Dim(line))
		}
	}
}

// fit chooses the columns that are shown in so many columns of the terminal, and their widths.
func (t *Table) fit(width []int, most int) (columns, shown []int) {
	for i := range width {
		columns = append(columns, i)
	}
	if most <= 0 {
		return columns, width
	}
	need := func(name int) (total int) {
		for _, i := range columns {
			total += t.least(i, width[i], name)
		}
		return total + 2*(len(columns)-1)
	}
	for _, i := range t.order() {
		if need(goodName) <= most {
			break
		}
		columns = slices.DeleteFunc(columns, func(c int) bool { return c == i })
	}
	name := goodName
	if need(name) > most {
		name = leastName
	}
	for len(columns) > 1 && need(name) > most {
		last := len(columns) - 1
		if t.hangs(columns[last]) && last > 1 {
			last--
		}
		columns = slices.Delete(columns, last, last+1)
	}
	spare := most - need(name)
	shown = slices.Clone(width)
	for _, i := range columns {
		shown[i] = t.least(i, width[i], name)
		if more := min(max(0, spare), width[i]-shown[i]); more > 0 {
			shown[i] += more
			spare -= more
		}
	}
	if len(columns) == 1 {
		shown[columns[0]] = min(shown[columns[0]], most)
	}
	return columns, shown
}

// order is the columns that Drops names.
func (t *Table) order() []int {
	var out []int
	for _, h := range t.drops {
		if i := slices.Index(t.rows[0], h); i > 0 {
			out = append(out, i)
		}
	}
	return out
}

// least is how narrow a column may get where names have so many columns.
func (t *Table) least(i, natural, name int) int {
	switch {
	case t.isName(i):
		return min(natural, max(name, ansi.StringWidth(t.rows[0][i])))
	case t.hangs(i):
		return min(natural, goodHang)
	}
	return natural
}

func (t *Table) isName(i int) bool {
	if t.names == nil {
		return i == 0 && !t.right[0]
	}
	return slices.Contains(t.names, t.rows[0][i])
}

// hangs reports whether a column is text that goes on below itself.
func (t *Table) hangs(i int) bool { return i == len(t.right)-1 && !t.right[i] && !t.isName(i) }

func (t *Table) print(w io.Writer, p Paint, columns, width []int) {
	for n, r := range t.rows {
		var line strings.Builder
		at := 0
		for _, i := range columns {
			if i >= len(r) {
				break
			}
			cell := r[i]
			if t.hangs(i) {
				if p.Width > 0 && at+ansi.StringWidth(cell) > p.Width {
					cell = strings.Join(wrap(cell, p.Width, at, at), "\n"+strings.Repeat(" ", at))
				}
			} else {
				cell = Short(cell, width[i])
			}
			pad := ""
			if i != columns[len(columns)-1] || t.right[i] {
				pad = strings.Repeat(" ", max(0, width[i]-ansi.StringWidth(cell)))
			}
			if n == 0 {
				cell = p.Dim(cell)
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

// leftOut says what of the table is not shown, and where it is.
func (t *Table) leftOut(columns, width, shown []int) string {
	var gone, short []string
	for i, h := range t.rows[0] {
		switch {
		case !slices.Contains(columns, i):
			gone = append(gone, h)
		case shown[i] < width[i] && !t.hangs(i):
			short = append(short, h)
		}
	}
	var parts []string
	if gone != nil {
		parts = append(parts, "not shown: "+strings.Join(gone, ", "))
	}
	if short != nil {
		parts = append(parts, "shortened: "+strings.Join(short, ", "))
	}
	return strings.Join(parts, "; ")
}

// Short is text of at most so many columns; of a longer one the begin and the end stay, and
// of a path the last part.
func Short(text string, most int) string {
	n := ansi.StringWidth(text)
	if n <= most {
		return text
	}
	if last := strings.LastIndex(text, "/"); last > 0 && text[0] == '/' && most > len("…/")+leastName {
		return "…/" + Short(text[last+1:], most-2)
	}
	end := (most - 1) * 3 / 5 // cgroup paths differ at their end
	return ansi.Cut(text, 0, most-1-end) + "…" + ansi.Cut(text, n-end, n)
}
