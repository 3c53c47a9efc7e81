package heat

import (
	"fmt"
	"github.com/homenode/homenode/ui/view"
	"math"
	"strings"
)

// Sizes in SVG units, about pixels.
const (
	cellH   = 30
	charW   = 7.4
	margin  = 16
	fontCSS = `font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12"`
)

// SVG draws a map.
func (m Map) SVG() string {
	labelW, cellW := 8.0, 40.0
	for _, r := range m.Rows {
		labelW = max(labelW, charW*float64(len([]rune(r)))+10)
	}
	for i := range m.Cells {
		for j, c := range m.Cells[i] {
			cellW = max(cellW, charW*float64(len([]rune(c.Text)))+14, charW*float64(len([]rune(m.Cols[j])))+10)
		}
	}
	footLines := len(m.Foot)
	width := margin*2 + labelW + cellW*float64(len(m.Cols))
	width = max(width, charW*float64(len([]rune(m.Title)))+2*margin, 300)
	for _, f := range m.Foot {
		width = max(width, charW*float64(len([]rune(f)))+2*margin)
	}
	top := 58.0
	height := top + cellH*float64(len(m.Rows)) + 48 + 18*float64(footLines) + margin
	var b strings.Builder
	open(&b, width, height, m.Title)
	text(&b, margin, 24, "start", "#111111", "bold", m.Title)
	for j, c := range m.Cols {
		text(&b, margin+labelW+cellW*(float64(j)+0.5), top-8, "middle", "#333333", "normal", c)
	}
	for i, r := range m.Rows {
		y := top + cellH*float64(i)
		text(&b, margin+labelW-8, y+cellH/2+4, "end", "#333333", "normal", r)
		for j, c := range m.Cells[i] {
			x := margin + labelW + cellW*float64(j)
			colour, ink := "#ececec", "#333333"
			if !math.IsNaN(c.Ratio) {
				colour, ink = ramp(c.Ratio).hex(), ramp(c.Ratio).ink()
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s" stroke="#ffffff"><title>%s</title></rect>`+"\n",
				x, y, cellW, cellH, colour, view.Markup(m.Rows[i]+" to "+m.Cols[j]+": "+c.Text))
			text(&b, x+cellW/2, y+cellH/2+4, "middle", ink, "normal", c.Text)
		}
	}
	y := top + cellH*float64(len(m.Rows)) + 16
	legend(&b, margin, y)
	for i, f := range m.Foot {
		text(&b, margin, y+34+18*float64(i), "start", "#555555", "normal", f)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func legend(b *strings.Builder, x, y float64) {
	for i := range 60 {
		ratio := math.Pow(topRatio, float64(i)/59)
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="3.2" height="10" fill="%s"/>`, x+float64(i)*3, y, ramp(ratio).hex())
	}
	b.WriteString("\n")
	text(b, x+188, y+9, "start", "#555555", "normal", "1 to 3 and more times local")
}

func open(b *strings.Builder, width, height float64, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" %s>`+"\n",
		width, height, width, height, view.Markup(title), fontCSS)
	fmt.Fprintf(b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
}

func text(b *strings.Builder, x, y float64, anchor, fill, weight, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" font-weight="%s">%s</text>`+"\n", x, y, anchor, fill, weight, view.Markup(s))
}
