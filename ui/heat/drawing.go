package heat

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/homenode/homenode/ui/view"
)

// Sizes in SVG units, about pixels.
const (
	margin    = 16.0
	titleSize = 15.0
	textSize  = 12.0
	smallSize = 10.0
	lineSpace = 1.45 // of a line to the next, in its size
)

// style has all colours but those of the ramps, which carry a meaning and are the same in
// the dark. No CSS variables: librsvg and Inkscape do not know them. Curves have the colours
// of Okabe and Ito, which stay apart for the colour-blind; in the dark they are lighter.
//
//go:embed drawing.css
var style string

// drawing collects elements of a picture that begins at 0, 0.
type drawing struct {
	strings.Builder
	title         string
	width, height float64
}

// textWidth guesses wide, so that text has room whatever the font is.
func textWidth(s string, size float64) float64 { return float64(len([]rune(s))) * size * 0.62 }

// text is one line; anchor is start, middle or end.
func (d *drawing) text(x, y, size float64, anchor, class, s string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="%g" text-anchor="%s"%s>%s</text>`+"\n", x, y, size, anchor,
		class, view.Markup(s))
}

// wrapped is text as wide as the drawing at most; it returns where the next line may begin.
func (d *drawing) wrapped(y, size float64, class, s string) float64 {
	return d.beside(margin, y, size, class, s)
}

// beside is text from x to the right edge.
func (d *drawing) beside(x, y, size float64, class, s string) float64 {
	most := int((d.width - margin - x) / textWidth("x", size))
	for line := range strings.SplitSeq(ansi.Wrap(s, most, ""), "\n") {
		d.text(x, y+size, size, "start", class, line)
		y += size * lineSpace
	}
	return y
}

// head is the title and, in a picture that stands alone, the caption.
func (d *drawing) head(caption string) float64 {
	y := d.wrapped(margin, titleSize, "bold", d.title)
	if caption != "" {
		y = d.wrapped(y, smallSize, "dim", caption)
	}
	return y + 8
}

// inside is the drawing as a part of a page or of another drawing, which has the style.
func (d *drawing) inside(x, y float64) string {
	return fmt.Sprintf(`<svg x="%.0f" y="%.0f" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n%s</svg>\n",
		x, y, d.width, d.height, d.width, d.height, view.Markup(d.title), d.String())
}

// file is the drawing as a file of its own.
func (d *drawing) file() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n"+
		"<style>\n%s</style>\n"+`<rect class="page" width="100%%" height="100%%"/>`+"\n%s</svg>\n",
		d.width, d.height, d.width, d.height, view.Markup(d.title), style, d.String())
}

// columnWidth is of a column of a sheet with several drawings: the least that the legend of
// a heat map takes. A curve takes two, a wide map as many as it needs; four are a wide screen.
const (
	columnWidth = 340.0
	mostColumns = 4
)

// fartherDown is what a drawing may go down to be farther left: drawings begin at the left
// edge rather than beside a hole.
const fartherDown = 100.0

// sheet places drawings in columns, each where the columns end first, so that they end alike.
func sheet(title, caption string, all []*drawing) *drawing {
	spans := make([]int, len(all))
	sum := 1
	widest := 1
	for i, d := range all {
		spans[i] = int(math.Ceil(d.width / columnWidth))
		sum, widest = sum+spans[i], max(widest, spans[i])
	}
	ends := make([]float64, max(widest, min(sum-1, mostColumns)))
	out := &drawing{title: title, width: columnWidth * float64(len(ends))}
	y := out.head(caption)
	for i := range ends {
		ends[i] = y
	}
	for k, d := range all {
		span := spans[k]
		at, top := 0, math.Inf(1)
		for i := 0; i+span <= len(ends); i++ {
			if low := slices.Max(ends[i : i+span]); low < top-fartherDown {
				at, top = i, low
			}
		}
		out.WriteString(d.inside(columnWidth*float64(at), top))
		for i := range span {
			ends[at+i] = top + d.height
		}
	}
	out.height = slices.Max(ends)
	return out
}
