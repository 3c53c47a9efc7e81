package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/homenode/homenode/ui/view"
)

// A cell of the picture, in its units.
const (
	cellWidth  = 8
	cellHeight = 17
	baseline   = 13
	margin     = 10
)

// Shades are the colours of a picture: its ground, and by SGR code its text and the colours that a
// terminal names.
type Shades struct {
	ground string
	by     map[int]string
}

// Dark and Light are the shades for pages of either kind.
var (
	Dark = Shades{"#161a22", map[int]string{0: "#d5dae3", 31: "#f7768e", 32: "#8fce7e", 33: "#e6b65c", 34: "#7aa2f7",
		36: "#56c8d8"}}
	Light = Shades{"#f7f7f5", map[int]string{0: "#1c2127", 31: "#b3261e", 32: "#1f7a4d", 33: "#9a5200", 34: "#0b62c4",
		36: "#0a6c7c"}}
)

// piece is text of one look, in a line.
type piece struct {
	column, width int
	text          string
	colour        int
	bold, dim     bool
}

// pieces takes a line with colours apart. Blanks between words have no look.
func pieces(line string) []piece {
	var out []piece
	now := piece{}
	for len(line) > 0 {
		if rest, ok := strings.CutPrefix(line, "\x1b["); ok {
			code, after, _ := strings.Cut(rest, "m")
			line = after
			switch n, _ := strconv.Atoi(code); {
			case n == 1:
				now.bold = true
			case n == 2:
				now.dim = true
			case n == 22:
				now.bold, now.dim = false, false
			case n == 39:
				now.colour = 0
			default:
				now.colour = n
			}
			continue
		}
		text := line
		if i := strings.IndexByte(line, '\x1b'); i >= 0 {
			text = line[:i]
		}
		line = line[len(text):]
		for text != "" {
			blank := len(text) - len(strings.TrimLeft(text, " "))
			now.column += blank
			if text = text[blank:]; text == "" {
				break
			}
			word := text
			if i := strings.Index(text, "  "); i >= 0 {
				word = text[:i]
			}
			text = text[len(word):]
			p := now
			p.text, p.width = word, ansi.StringWidth(word)
			out = append(out, p)
			now.column += p.width
		}
	}
	return out
}

// line draws a line of a frame. Each piece is as wide as its columns, whatever the font.
func line(b *strings.Builder, text string, row int) {
	for _, p := range pieces(text) {
		look := ""
		if p.colour != 0 {
			look = fmt.Sprintf(` class="c%d"`, p.colour)
		}
		if p.bold {
			look += ` font-weight="bold"`
		}
		if p.dim {
			look += ` opacity=".55"`
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" textLength="%d"%s>%s</text>`, margin+p.column*cellWidth,
			margin+row*cellHeight+baseline, p.width*cellWidth, look, view.Markup(p.text))
	}
}

// SVG is frames of a terminal of this size as a picture. Of several each is shown for so long, and
// then they begin anew; a program that does not animate shows the first.
func SVG(frames []string, each time.Duration, width, height int, shades Shades) string {
	var b strings.Builder
	w, h := width*cellWidth+2*margin, height*cellHeight+2*margin
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="ui-monospace,'DejaVu Sans Mono','Cascadia Mono',Menlo,Consolas,monospace" font-size="13" fill="%s">`+"\n", w, h, w, h, shades.by[0])
	b.WriteString("<title>homenode top</title><style>text{white-space:pre}")
	for _, code := range []int{31, 32, 33, 34, 36} {
		fmt.Fprintf(&b, ".c%d{fill:%s}", code, shades.by[code])
	}
	fmt.Fprintf(&b, "</style>\n"+`<rect width="%d" height="%d" rx="8" fill="%s"/>`+"\n", w, h, shades.ground)
	rows := make([][]string, len(frames))
	for i := range frames {
		rows[i] = strings.Split(frames[i], "\n")
	}
	at := func(frame, row int) string {
		if row < len(rows[frame]) {
			return rows[frame][row]
		}
		return ""
	}
	for row := range height { // each line once for as long as it stands
		var texts []string
		from := map[string][]int{}
		for f := range frames {
			text := at(f, row)
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
			from[text] = append(from[text], f)
		}
		for _, text := range texts {
			var drawn strings.Builder
			line(&drawn, text, row)
			if drawn.Len() == 0 {
				continue
			}
			if len(from[text]) == len(frames) {
				b.WriteString(drawn.String() + "\n")
				continue
			}
			hidden := ""
			if from[text][0] > 0 {
				hidden = ` display="none"`
			}
			fmt.Fprintf(&b, `<g%s>%s%s</g>`+"\n", hidden, drawn.String(), shownIn(from[text], len(frames), each))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// shownIn is the animation of what is to be seen in some of so many frames.
func shownIn(frames []int, of int, each time.Duration) string {
	var values, times []string
	was := -1
	for f := range of {
		now := 0
		if slices.Contains(frames, f) {
			now = 1
		}
		if now != was {
			values = append(values, []string{"none", "inline"}[now])
			times = append(times, strconv.FormatFloat(float64(f)/float64(of), 'g', 4, 64))
		}
		was = now
	}
	return fmt.Sprintf(`<animate attributeName="display" values="%s" keyTimes="%s" dur="%gs" calcMode="discrete" repeatCount="indefinite"/>`,
		strings.Join(values, ";"), strings.Join(times, ";"), (time.Duration(of) * each).Seconds())
}
