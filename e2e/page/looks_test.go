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
		for _, width := range []int64{1280, 390} {
			for _, dark := range []bool{false, true} {
				tab, cancel := chromedp.NewContext(ctx)
				s := watch(tab)
				look(t, tab, link, width, 900, dark)
				shot(t, tab, fmt.Sprintf("%d-nodes-%d-%v", nodes, width, map[bool]string{false: "light", true: "dark"}[dark]))
				if n := eval[int](t, tab, `document.querySelectorAll('#picture .room').length`); n != nodes {
					t.Errorf("%d rooms, want %d", n, nodes)
				}
				within(t, tab, "what batch work has of each node", `[...document.querySelectorAll('#picture .room .sharing')].filter((e) => /^batch [\d.]+\/[\d.]+ · online [\d.]+/.test(e.textContent)).length === `+fmt.Sprint(nodes))
				within(t, tab, "a tier that was chosen", `[...document.querySelectorAll('#picture .tile')].some((e) => /shared, online-strict/.test(e.getAttribute('aria-label')))`)
				if over := eval[int](t, tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%d nodes at %d: %d pixels wider than the window", nodes, width, over)
				}
				s.fine(t, link)
				cancel()
			}
		}
	}
}

// TestPictures makes the README's picture of the page, with -pictures (make pictures).
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("by hand: make pictures")
	}
	ctx := browser(t)
	link, _ := demo(t, "--seed", "7", "--speed", "3")
	time.Sleep(25 * time.Second) // until most are at home
	look(t, ctx, link, 1280, 900, false)
	shot(t, ctx, "page-light")
}
