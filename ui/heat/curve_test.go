package heat

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// written is the place that a text of a picture takes, by a wide guess of its letters.
type written struct {
	text                     string
	left, right, top, bottom float64
}

var elements = regexp.MustCompile(`<svg x="([^"]*)" y="([^"]*)"|</svg>|<g transform="translate\(([^ ]*) ([^)]*)\) rotate\(-90\)">|</g>|<text x="([^"]*)" y="([^"]*)" font-size="([^"]*)" text-anchor="(\w+)"[^>]*>([^<]*)<`)

func texts(t interface{ Fatalf(string, ...any) }, svg string) (width, height float64, all []written) {
	if _, err := fmt.Sscanf(svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%f" height="%f"`, &width, &height); err != nil {
		t.Fatalf("%v", err)
	}
	number := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v }
	var dx, dy, gx, gy float64
	turned := false
	for _, m := range elements.FindAllStringSubmatch(svg, -1) {
		switch {
		case strings.HasPrefix(m[0], "<svg x"):
			dx, dy = number(m[1]), number(m[2])
		case m[0] == "</svg>":
			dx, dy = 0, 0
		case strings.HasPrefix(m[0], "<g"):
			turned, gx, gy = true, number(m[3]), number(m[4])
		case m[0] == "</g>":
			turned = false
		default:
			x, y, size := number(m[5]), number(m[6]), number(m[7])
			w := size * 0.62 * float64(len([]rune(strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "&#34;", `"`, "&#39;", "'").Replace(m[9]))))
			left := map[string]float64{"start": x, "middle": x - w/2, "end": x - w}[m[8]]
			r := written{m[9], left + dx, left + w + dx, y - 0.75*size + dy, y + 0.2*size + dy}
			if turned {
				r = written{m[9], dx + gx + y - 0.75*size, dx + gx + y + 0.2*size, dy + gy - left - w, dy + gy - left}
			}
			all = append(all, r)
		}
	}
	return width, height, all
}

// checkTexts fails where a text leaves the picture or lies on another.
func checkTexts(t interface {
	Fatalf(string, ...any)
	Errorf(string, ...any)
}, svg string) {
	width, height, all := texts(t, svg)
	slices.SortFunc(all, func(a, b written) int { return cmp.Compare(a.top, b.top) })
	for i, a := range all {
		if a.left < 0 || a.right > width || a.top < 0 || a.bottom > height {
			t.Errorf("%q goes from %.0f,%.0f to %.0f,%.0f of %.0f by %.0f", a.text, a.left, a.top, a.right, a.bottom, width, height)
		}
		for _, b := range all[i+1:] {
			if b.top > a.bottom {
				break
			}
			if a.left < b.right-0.1 && b.left < a.right-0.1 && a.top < b.bottom-0.1 && b.top < a.bottom-0.1 {
				t.Errorf("%q lies on %q", a.text, b.text)
			}
		}
	}
}

// TestPicturesRead: of any size and with names of any length, no text of a picture is cut
// or lies on another, and in a terminal of 80 columns no line is longer.
func TestPicturesRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9 <&]{1,60}`)
		n := rapid.IntRange(1, 16).Draw(t, "nodes")
		m := Map{Title: name.Draw(t, "title"), Row: name.Draw(t, "row"), Col: name.Draw(t, "col"), colours: bandwidthRamp, Foot: []string{name.Draw(t, "foot")}}
		scale := rapid.SampledFrom([]float64{1, 60, 300, 2000}).Draw(t, "scale")
		short := rapid.StringMatching(`[0-9]{1,3}`)
		for range n {
			m.Rows, m.Cols = append(m.Rows, short.Draw(t, "r")), append(m.Cols, short.Draw(t, "c"))
		}
		for k := range rapid.IntRange(1, 3).Draw(t, "tables") {
			table := Table{Title: "table " + strconv.Itoa(k), Digits: rapid.IntRange(0, 2).Draw(t, "digits")}
			for range n {
				var row []Cell
				for range n {
					c := Cell{scale * rapid.Float64Range(0.3, 3).Draw(t, "value"), rapid.SampledFrom([]string{"", "~"}).Draw(t, "mark"), rapid.Float64Range(1, 5).Draw(t, "ratio")}
					if rapid.IntRange(0, 9).Draw(t, "known") == 0 {
						c.Value, c.Ratio = math.NaN(), math.NaN()
					}
					row = append(row, c)
				}
				table.Cells = append(table.Cells, row)
			}
			m.Tables = append(m.Tables, table)
		}
		checkTexts(t, m.SVG(name.Draw(t, "caption")))
		for line := range strings.Lines(m.Text(Style{Width: 80, Colour: true})) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > 80 {
				t.Errorf("%d columns: %q", w, line)
			}
		}

		c := Curve{Title: name.Draw(t, "curve"), X: name.Draw(t, "x"), Y: rapid.StringMatching(`[a-z ]{1,30}`).Draw(t, "y"), LogX: rapid.Bool().Draw(t, "logx"), LogY: rapid.Bool().Draw(t, "logy"), XName: trim}
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			l := Line{Name: name.Draw(t, "line")}
			x := 1.0
			for range rapid.IntRange(1, 20).Draw(t, "points") {
				x *= rapid.Float64Range(1.01, 3).Draw(t, "step")
				l.Points = append(l.Points, [2]float64{x, rapid.Float64Range(1, 2000).Draw(t, "y")})
				if rapid.IntRange(0, 4).Draw(t, "marked") == 0 {
					l.Marks = append(l.Marks, Mark{x, name.Draw(t, "mark")})
				}
			}
			c.Lines = append(c.Lines, l)
		}
		checkTexts(t, c.SVG(name.Draw(t, "caption")))
		checkTexts(t, sheet(name.Draw(t, "sheet"), name.Draw(t, "caption"), []*drawing{m.draw(""), c.draw(""), m.draw("")}).file())
	})
}
