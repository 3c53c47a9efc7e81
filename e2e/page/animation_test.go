package page

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// drawn lists what a window of the page shows, a piece of SVG each, from the back to the front. It
// reads colours and places as the browser computed them.
const drawn = `((W, H) => {
  const out = [], r1 = (x) => Math.round(x * 10) / 10, esc = (s) => s.replace(/[&<>"]/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[c]));
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true}), seen = new Map();
  const rgb = (c) => { // every form of a colour as #rrggbb and an opacity
    if (!seen.has(c)) { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; seen.set(c, ['#' + [r, g, b].map((x) => x.toString(16).padStart(2, '0')).join(''), a / 255]); }
    return seen.get(c);
  };
  const paint = (name, c) => { if (c === 'none') return name + '="none"'; const [hex, a] = rgb(c); return a === 0 ? name + '="none"' : name + '="' + hex + '"' + (a < .99 ? ' ' + name + '-opacity="' + r1(a) + '"' : ''); };
  const box = (x, y, w, h, more) => { if (w > 0 && h > 0 && y < H && x < W && y + h > 0) out.push('<rect x="' + r1(x) + '" y="' + r1(y) + '" width="' + r1(w) + '" height="' + r1(h) + '" ' + more + '/>'); };
  const font = (s) => 'font-size="' + parseFloat(s.fontSize) + '"' + (s.fontWeight > 500 ? ' font-weight="' + s.fontWeight + '"' : '');
  const words = (node, s) => { // a piece for each line
    const range = document.createRange(), lines = [];
    for (const m of node.data.matchAll(/[^\s-]+-*\s*|-+\s*/g)) { // a browser breaks a line behind a hyphen, too
      range.setStart(node, m.index); range.setEnd(node, m.index + m[0].trimEnd().length);
      const b = range.getBoundingClientRect(), last = lines[lines.length - 1];
      if (!b.width) continue;
      if (last && Math.abs(last.top - b.top) < 3) { last.text += m[0].replace(/\s+/, ' '); last.right = b.right; } else lines.push({text: m[0].replace(/\s+/, ' '), top: b.top, bottom: b.bottom, left: b.left, right: b.right});
    }
    for (const l of lines) if (l.top < H - 4 && l.left < W) out.push('<text x="' + r1(l.left) + '" y="' + r1((l.top + l.bottom) / 2 + parseFloat(s.fontSize) * .35) + '" textLength="' + r1(l.right - l.left) + '" ' + font(s) + ' ' + paint('fill', s.color) + '>' + esc(l.text.trimEnd()) + '</text>');
  };
  const shape = (e) => {
    const s = getComputedStyle(e);
    if (s.display === 'none' || s.visibility === 'hidden') return;
    if (/^(rect|path|text)$/.test(e.tagName) && !(e.tagName === 'text' && !e.textContent)) {
      const m = e.getScreenCTM(), at = m.a === 1 && m.b === 0 && m.e === 0 && m.f === 0 ? '' : ' transform="matrix(' + [m.a, m.b, m.c, m.d, m.e, m.f].map((x) => Math.round(x * 1000) / 1000).join(' ') + ')"';
      const b = e.getBoundingClientRect();
      if (b.top > H || b.left > W) return;
      let more = '';
      for (const k of ['x', 'y', 'width', 'height', 'rx', 'd', 'text-anchor']) if (e.hasAttribute(k)) more += ' ' + k + '="' + e.getAttribute(k).replace(/-?\d+\.\d+/g, (x) => r1(+x)) + '"';
      if (e.tagName === 'text') more += ' ' + font(s) + ' ' + paint('fill', s.fill);
      else { more += ' ' + paint('fill', s.fill); if (s.stroke !== 'none') more += ' ' + paint('stroke', s.stroke) + ' stroke-width="' + parseFloat(s.strokeWidth) + '"' + (s.strokeDasharray !== 'none' ? ' stroke-dasharray="' + s.strokeDasharray.replace(/px/g, '') + '"' : ''); }
      if (s.opacity < 1) more += ' opacity="' + s.opacity + '"';
      out.push('<' + e.tagName + at + more + (e.tagName === 'text' ? '>' + esc(e.textContent) + '</text>' : '/>'));
    }
    for (const c of e.children) shape(c);
  };
  const walk = (e) => {
    const s = getComputedStyle(e);
    if (s.display === 'none' || s.visibility === 'hidden' || e.matches('.unseen,.skip,#tip')) return;
    if (e.tagName === 'svg') { shape(e); return; }
    const b = e.getBoundingClientRect(), side = ['Top', 'Right', 'Bottom', 'Left'].map((k) => parseFloat(s['border' + k + 'Width'])), even = side.every((x) => x === side[0]);
    if (b.top > H) return;
    const ground = rgb(s.backgroundColor)[1] > 0, edge = even && side[0] > 0 && rgb(s.borderTopColor)[1] > 0;
    if (ground || edge) { const k = edge ? side[0] / 2 : 0; box(b.left + k, b.top + k, b.width - 2 * k, Math.min(b.height - 2 * k, H - b.top), 'rx="' + Math.min(parseFloat(s.borderTopLeftRadius) || 0, b.height / 2) + '" ' + (ground ? paint('fill', s.backgroundColor) : 'fill="none"') + (edge ? ' ' + paint('stroke', s.borderTopColor) + ' stroke-width="' + side[0] + '"' : '')); }
    if (!even) { if (side[3]) box(b.left, b.top, side[3], b.height, paint('fill', s.borderLeftColor)); if (side[0]) box(b.left, b.top, b.width, side[0], paint('fill', s.borderTopColor)); }
    if (e.matches('.live')) { const c = getComputedStyle(e, '::before'); box(b.left, b.top + b.height / 2 - 4, 8, 8, 'rx="4" ' + paint('fill', c.backgroundColor)); }
    if (e.tagName === 'INPUT' && e.placeholder) out.push('<text x="' + r1(b.left + 11) + '" y="' + r1(b.top + b.height / 2 + 5) + '" ' + font(s) + ' ' + paint('fill', getComputedStyle(document.querySelector('.muted')).color) + '>' + esc(e.placeholder) + '</text>');
    if (e.tagName === 'IMG') out.push('<svg x="' + r1(b.left) + '" y="' + r1(b.top) + '" width="' + b.width + '" height="' + b.height + '" viewBox="0 0 24 24">ICON</svg>');
    if (e.type === 'checkbox') box(b.left + .5, b.top + .5, b.width - 1, b.height - 1, 'rx="2" fill="none" ' + paint('stroke', s.color) + ' opacity=".6"');
    for (const c of e.childNodes) c.nodeType === 3 ? words(c, s) : c.nodeType === 1 && walk(c);
  };
  scrollTo(0, 0);
  walk(document.body);
  return out;
})`

// animated is frames, each a list of pieces, as one SVG: a piece is in it once, and shown while it stands.
func animated(frames [][]string, each time.Duration, width, height int) string {
	var order []string
	in := map[string][]int{}
	for f, pieces := range frames {
		at := -1
		for _, p := range pieces {
			if in[p] == nil {
				order = slices.Insert(order, at+1, p)
				at++
			} else if k := slices.Index(order, p); k > at {
				at = k
			}
			if n := len(in[p]); n == 0 || in[p][n-1] != f {
				in[p] = append(in[p], f)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif">`+"\n<title>The page of homenode demo</title>\n", width, height, width, height)
	for _, p := range order {
		if len(in[p]) == len(frames) {
			b.WriteString(p + "\n")
			continue
		}
		var values, times []string
		was := ""
		for f := range frames {
			now := "none"
			if slices.Contains(in[p], f) {
				now = "inline"
			}
			if now != was {
				values, times, was = append(values, now), append(times, strconv.FormatFloat(float64(f)/float64(len(frames)), 'g', 4, 64)), now
			}
		}
		hidden := ""
		if in[p][0] > 0 {
			hidden = ` display="none"`
		}
		fmt.Fprintf(&b, `<g%s>%s<animate attributeName="display" values="%s" keyTimes="%s" dur="%gs" calcMode="discrete" repeatCount="indefinite"/></g>`+"\n",
			hidden, p, strings.Join(values, ";"), strings.Join(times, ";"), (time.Duration(len(frames)) * each).Seconds())
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// TestPictures makes the README's pictures of the page, with -pictures (make pictures): still ones
// in light and dark, and the first minute and a half as animations of 20 seconds.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("by hand: make pictures")
	}
	const width, height, count, speed = 1280, 1060, 40, 4.5
	ctx := browser(t)
	link, _ := demo(t, "--seed", "7", "--speed", fmt.Sprint(speed))
	look(t, ctx, link, width, height, false)
	colours := []string{"light", "dark"}
	frames := map[string][][]string{}
	began := time.Now()
	for f := range count {
		time.Sleep(time.Until(began.Add(time.Duration(f) * 500 * time.Millisecond)))
		for _, colour := range colours {
			run(t, ctx, chromedp.Evaluate(`document.documentElement.dataset.theme = "`+colour+`"`, nil))
			frames[colour] = append(frames[colour], eval[[]string](t, ctx, fmt.Sprintf("%s(%d, %d)", drawn, width, height)))
		}
		if f == count/4 {
			for _, colour := range colours {
				run(t, ctx, chromedp.Evaluate(`document.documentElement.dataset.theme = "`+colour+`"`, nil))
				shot(t, ctx, "page-"+colour)
			}
		}
	}
	icon, err := os.ReadFile("../../ui/web/page/icon.svg")
	if err != nil {
		t.Fatal(err)
	}
	_, inside, _ := strings.Cut(string(icon), ">")
	inside, _, _ = strings.Cut(inside, "</svg>")
	for _, colour := range colours {
		for _, pieces := range frames[colour] {
			for i := range pieces {
				pieces[i] = strings.Replace(pieces[i], ">ICON<", ">"+inside+"<", 1)
			}
		}
		text := animated(frames[colour], 500*time.Millisecond, width, height)
		if n := len(text); n > 1<<20 {
			t.Errorf("%s: %d KiB, more than a README should have", colour, n>>10)
		}
		if err := os.WriteFile(filepath.Join(*pictures, "page-moving-"+colour+".svg"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
