package heat

import (
	"fmt"
	"math"

	"github.com/homenode/homenode/ui/view"
)

// manyCols is from where on cells are small and hold one figure.
const manyCols = 17

// SVG is the map as a file of its own, with a caption: machine, date, program.
func (m Map) SVG(caption string) string { return m.draw(caption).file() }

// draw draws the first table, with the second in small figures.
func (m Map) draw(caption string) *drawing {
	main := m.Tables[0]
	size := textSize
	cellW := 46.0
	cellH := 30.0
	var sub *Table
	switch {
	case len(m.Cols) >= manyCols:
		size = 9
		cellW = 18
		cellH = 20
	case len(m.Tables) > 1:
		sub, cellH = &m.Tables[1], 42
	}
	figure := func(t Table, i, j int) string {
		c, digits := t.Cells[i][j], t.Digits
		if len(m.Cols) >= manyCols && c.Value >= 10 {
			digits = 0
		}
		return c.Mark + c.number(digits)
	}
	labelW := textWidth(m.Row, smallSize) + 12
	for _, r := range m.Rows {
		labelW = max(labelW, textWidth(r, size)+12)
	}
	for j, c := range m.Cols {
		cellW = max(cellW, textWidth(c, size)+8)
		for i := range m.Rows {
			cellW = max(cellW, textWidth(figure(main, i, j), size)+8)
			if sub != nil {
				cellW = max(cellW, textWidth(figure(*sub, i, j), smallSize)+8)
			}
		}
	}
	d := &drawing{title: m.Title,
		width: max(columnWidth, 2*margin+labelW+max(cellW*float64(len(m.Cols)), textWidth(m.Col, smallSize)))}
	y, x := d.head(caption), margin+labelW
	d.text(x, y+smallSize, smallSize, "start", "dim", m.Col)
	y += smallSize * lineSpace
	d.text(x-8, y+size, smallSize, "end", "dim", m.Row)
	for j, c := range m.Cols {
		d.text(x+cellW*(float64(j)+0.5), y+size, size, "middle", "", c)
	}
	y += size*lineSpace + 2
	for i, r := range m.Rows {
		middle := y + cellH/2
		d.text(x-8, middle+size*0.35, size, "end", "", r)
		for j := range m.Cols {
			c, at := main.Cells[i][j], x+cellW*float64(j)
			fill, ink := `class="void"`, "dim"
			if !math.IsNaN(c.Ratio) && !math.IsNaN(c.Value) {
				colour := m.colours.at(c.Ratio)
				fill, ink = fmt.Sprintf(`fill="%s"`, colour.hex()), "on1"
				if colour.light() {
					ink = "on0"
				}
			}
			tip := fmt.Sprintf("%s %s to %s %s:", m.Row, r, m.Col, m.Cols[j])
			for _, t := range m.Tables {
				tip += fmt.Sprintf(" %s %s,", figure(t, i, j), t.Title)
			}
			fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s><title>%s</title></rect>`+"\n",
				at, y, cellW-1, cellH-1, fill, view.Markup(tip[:len(tip)-1]))
			base := middle + size*0.35
			if sub != nil && !math.IsNaN(c.Value) {
				base = middle - 3
				d.text(at+cellW/2, middle+smallSize+2, smallSize, "middle", ink, figure(*sub, i, j))
			}
			d.text(at+cellW/2, base, size, "middle", ink, figure(main, i, j))
		}
		y += cellH
	}
	y = d.legend(y+14, m.colours)
	if sub != nil {
		y = d.wrapped(y, smallSize, "dim", "large figures: "+main.Title+"; small figures: "+sub.Title)
	}
	for _, f := range m.Foot {
		y = d.wrapped(y, smallSize, "dim", f)
	}
	d.height = y + margin/2
	return d
}

// legend is a ramp with its ticks.
func (d *drawing) legend(y float64, r ramp) float64 {
	const width, steps = 300.0, 60
	d.text(margin, y+smallSize, smallSize, "start", "", r.name)
	y += smallSize * lineSpace
	for i := range steps {
		fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="10" fill="%s"/>`, margin+width*float64(i)/steps, y,
			width/steps+0.5,
			r.at(math.Pow(topRatio, float64(i)/(steps-1))).hex())
	}
	d.WriteString("\n")
	for i, ratio := range []float64{1, 1.5, 2, 3} {
		x, anchor := margin+width*along(ratio), "middle"
		switch i {
		case 0:
			anchor = "start"
		case 3:
			anchor = "end"
		}
		fmt.Fprintf(d, `<line class="l6" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", x, y+7, x, y+14)
		d.text(x, y+14+smallSize, smallSize, anchor, "dim", r.ticks[i])
	}
	return y + 14 + smallSize*lineSpace + 6
}
