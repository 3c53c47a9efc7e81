package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestSizes: on 1, 2 and 8 nodes, on a desk and on a phone, in both colours nothing overflows, every
// node is there, and the console is silent.
func TestSizes(t *testing.T) {
	ctx := browser(t)
	for _, nodes := range []int{1, 2, 8} {
		link, _ := demo(t, "--nodes", fmt.Sprint(nodes), "--speed", "3")
		if *pictures != "" {
			time.Sleep(10 * time.Second) // until there is something to see
		}
		for _, width := range []int64{1280, 390, 1920} {
			for _, dark := range []bool{false, true} {
				tab, cancel := chromedp.NewContext(ctx)
				s := watch(tab)
				look(t, tab, link, width, 900, dark)
				shot(t, tab, fmt.Sprintf("%d-nodes-%d-%v", nodes, width, map[bool]string{false: "light", true: "dark"}[dark]))
				if n := eval[int](t, tab, `document.querySelectorAll('#picture .room').length`); n != nodes {
					t.Errorf("%d rooms, want %d", n, nodes)
				}
				within(t, tab, "what batch work has of each node", `[...document.querySelectorAll('#picture .room .sharing')].filter((e) => /^batch [\d.]+( of |\/)[\d.]+( CPUs)? · online [\d.]+/.test(e.textContent)).length === `+fmt.Sprint(nodes))
				within(t, tab, "a tier that was chosen", `[...document.querySelectorAll('#picture .tile')].some((e) => /shared, online-strict/.test(e.getAttribute('aria-label')))`)
				for _, name := range eval[[]string](t, tab, cutNames) {
					t.Errorf("%d nodes at %d: the name of %s is cut off", nodes, width, name)
				}
				if over := eval[int](t, tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%d nodes at %d: %d pixels wider than the window", nodes, width, over)
				}
				s.fine(t, link)
				cancel()
			}
		}
	}
}

// cutNames lists the tiles that have not all of their name in them, or have text over their border.
const cutNames = `[...document.querySelectorAll('#picture .tile')].filter((t) => {
  const name = t.getAttribute('aria-label').split(', ')[0], said = [...t.querySelectorAll('.label text')].map((e) => e.textContent).join('');
  const b = t.querySelector('.body').getBoundingClientRect();
  const over = [...t.querySelectorAll('text')].some((e) => { if (!e.textContent) return false; const r = e.getBoundingClientRect(); return r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1; });
  return said !== name || over;
}).map((t) => t.getAttribute('aria-label'))`
