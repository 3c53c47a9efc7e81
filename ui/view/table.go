package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Table is columns of text, wide as their widest cell. A heading that begins
// with > aligns to the right.
type Table struct {
	right []bool
	rows  [][]string
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

// Print writes the table, as wide as the terminal at most.
func (t *Table) Print(w io.Writer, p Paint) {
	width := make([]int, len(t.right))
	for _, r := range t.rows {
		for i, cell := range r {
			width[i] = max(width[i], ansi.StringWidth(cell))
		}
	}
	for n, columns := range t.blocks(width, p.Width) {
		if n > 0 {
			fmt.Fprintln(w)
		}
		t.block(w, p, width, columns)
	}
}

// blocks is which columns are printed beside each other: all, or on a terminal that is
// too narrow as many as fit, the first one again in each. The last is text that may go
// on below itself.
func (t *Table) blocks(width []int, most int) [][]int {
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

func (t *Table) block(w io.Writer, p Paint, width, columns []int) {
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
				cell = p.Hang(cell, at)
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
