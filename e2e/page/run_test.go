package page

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestPage: the page goes live, a move on the simulated host is seen moving, explain and what-if
// answer, keys do what they should, names and contrast are there, and nothing outside is asked.
func TestPage(t *testing.T) {
	ctx := browser(t)
	link, socket := demo(t, "--nodes", "4", "--speed", "2")
	s := watch(ctx)
	look(t, ctx, link, 1280, 900, false)

	// A person moves a workload: its tile goes from one room to the other.
	within(t, ctx, "a workload at home", `[...document.querySelectorAll('#picture .tile.s-home')].some((t) => !t.dataset.id.startsWith('group:') && !t.dataset.key.includes('@'))`)
	from := eval[string](t, ctx, `[...document.querySelectorAll('#picture .tile.s-home')].find((t) => !t.dataset.id.startsWith('group:') && !t.dataset.key.includes('@')).dataset.id`)
	room := eval[string](t, ctx, tile(from)+`.dataset.room`)
	program, _ := built()
	target := "1"
	if room == "1" {
		target = "2"
	}
	at := eval[string](t, ctx, tile(from)+`.style.transform`)
	if out, err := exec.Command(program, "move", from, "--to", target, "--socket", socket).CombinedOutput(); err != nil {
		t.Fatalf("move %s from node %s to node %s: %v: %s", from, room, target, err, out)
	}
	within(t, ctx, "the tile moves", tile(from)+`?.dataset.room === "`+target+`"`)
	if now := eval[string](t, ctx, tile(from)+`.style.transform`); now == at {
		t.Error("the tile has another room and the same place")
	}
	within(t, ctx, "the timeline tells", `[...document.querySelectorAll('#timeline li')].some((l) => /ordered a move/.test(l.textContent))`)

	// By keys alone: into the picture, into a room, a workload, its explanation, and out again.
	run(t, ctx, chromedp.Focus("#find", chromedp.ByQuery))
	run(t, ctx, chromedp.Evaluate(`document.querySelector('#picture .room[data-key="0"]').focus()`, nil), chromedp.KeyEvent(kb.ArrowRight))
	if key := eval[string](t, ctx, `document.activeElement.dataset.key`); key != "1" && key != "2" {
		t.Errorf("the right arrow goes from node 0 to %q", key)
	}
	run(t, ctx, chromedp.KeyEvent(kb.Enter))
	if !eval[bool](t, ctx, `document.activeElement.classList.contains('tile')`) {
		t.Error("Enter does not go into the room")
	}
	run(t, ctx, chromedp.KeyEvent(kb.Enter))
	within(t, ctx, "explained", `!document.getElementById('detail').hidden && /Why/.test(document.getElementById('detail-body').textContent)`)
	if !eval[bool](t, ctx, `document.getElementById('detail').contains(document.activeElement)`) {
		t.Error("the explanation has not the focus")
	}
	shot(t, ctx, "explained")

	// What a move would cost and bring.
	within(t, ctx, "a form", `!!document.getElementById('move-form')`)
	run(t, ctx, chromedp.Evaluate(`document.getElementById('move-form').requestSubmit()`, nil))
	within(t, ctx, "what-if of a move", `/It would|already/.test(document.getElementById('move-answer').textContent)`)
	shot(t, ctx, "whatif")
	if eval[bool](t, ctx, `/\[object|undefined|NaN/.test(document.body.textContent)`) {
		t.Error("something is not put into words")
	}
	run(t, ctx, chromedp.KeyEvent(kb.Escape))
	within(t, ctx, "shut", `document.getElementById('detail').hidden && document.activeElement.classList.contains('tile')`)
	run(t, ctx, chromedp.KeyEvent(kb.Escape))
	if !eval[bool](t, ctx, `document.activeElement.classList.contains('room')`) {
		t.Error("Escape does not go back to the room")
	}

	// Where something new would go; a spec that is none is an error in words.
	run(t, ctx, chromedp.SetValue("#spec", "- {name: newcomer, cpus: 2, memory: 1GiB}", chromedp.ByQuery), chromedp.Evaluate(`document.getElementById('whatif-form').requestSubmit()`, nil))
	within(t, ctx, "what-if of a spec", `/newcomer: node \d/.test(document.getElementById('whatif-answer').textContent)`)
	run(t, ctx, chromedp.SetValue("#find", "postgres", chromedp.ByQuery), chromedp.Evaluate(`document.getElementById('find').dispatchEvent(new Event('input'))`, nil))
	within(t, ctx, "found", `/found/.test(document.getElementById('detail-name').textContent)`)

	for _, dark := range []string{"light", "dark"} {
		run(t, ctx, chromedp.Evaluate(`document.documentElement.dataset.theme = "`+dark+`"`, nil))
		for _, wrong := range eval[[]string](t, ctx, accessible) {
			t.Errorf("%s: %s", dark, wrong)
		}
	}
	order := eval[[]string](t, ctx, `[...document.querySelectorAll('a[href],button,input,textarea,select,[tabindex="0"]')].filter((e) => e.checkVisibility()).map((e) => e.id || e.className.baseVal || e.className)`)
	want := []string{"skip", "find", "theme", "room", "steps"}
	k := 0
	for _, name := range order {
		if k < len(want) && strings.Contains(name, want[k]) {
			k++
		}
	}
	if positive := eval[int](t, ctx, `document.querySelectorAll('[tabindex]:not([tabindex="0"]):not([tabindex="-1"])').length`); k < 3 || positive > 0 {
		t.Errorf("order of the tab key: %q", order)
	}
	s.fine(t, link)
}

// tile is the tile of a workload, in the script.
func tile(id string) string {
	q, _ := json.Marshal(id)
	return `[...document.querySelectorAll('#picture .tile')].find((t) => t.dataset.id === ` + string(q) + `)`
}

func run(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// accessible lists what has no name, and text whose contrast with its ground is less than 4.5 (WCAG 2.2,
// 1.4.3). Colours are read as they are computed.
const accessible = `(() => {
  const wrong = [], canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const f = (x) => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255, 255]; };
  const tell = (e) => e.tagName + '#' + e.id + ' ' + (e.textContent || '').slice(0, 40);
  for (const e of document.querySelectorAll('button,input,textarea,select,a[href],[role=button],[role=group],[role=dialog],[role=img],svg[role]')) {
    if (!e.checkVisibility()) continue;
    const label = e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent || (e.labels && e.labels[0]?.textContent) || e.textContent;
    if (!label || !label.trim()) wrong.push('no name: ' + tell(e));
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest('.unseen,.skip,option')) continue;
    let fore, back;
    const tile = e.closest('.tile');
    if (e instanceof SVGElement) {
      fore = rgb(getComputedStyle(e).fill);
      const fill = tile ? getComputedStyle(tile.querySelector('.body')).fill : 'none', wall = e.closest('.room') || tile;
      back = fill !== 'none' && rgb(fill)[3] > 250 ? rgb(fill) : wall ? rgb(getComputedStyle(document.querySelector('.wall')).fill) : ground(document.body);
    } else { fore = rgb(getComputedStyle(e).color); back = ground(e); }
    const c = contrast(fore, back);
    if (c < 4.5) wrong.push('contrast ' + c.toFixed(2) + ': ' + tell(e) + ' ' + fore + ' on ' + back);
  }
  if (!document.documentElement.lang || !document.title) wrong.push('no language or title');
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id), twice = ids.find((x, i) => ids.indexOf(x) !== i);
  if (twice) wrong.push('id twice: ' + twice);
  return [...new Set(wrong)];
})()`

// TestNothingIsChanged: what a page could try, from within the page itself and from another, changes
// nothing.
func TestNothingIsChanged(t *testing.T) {
	ctx := browser(t)
	link, _ := demo(t, "--nodes", "2")
	run(t, ctx, network.Enable(), chromedp.Navigate(link))
	within(t, ctx, "live", `document.getElementById('live').textContent === 'live'`)
	ask := func(script string) string {
		var out string
		run(t, ctx, chromedp.Evaluate(`(async () => { try { const r = await (`+script+`); return String(r.status); } catch (e) { return e.name; } })()`, &out, chromedp.EvalAsValue, awaited))
		return out
	}
	for _, path := range []string{"undo", "move", "place", "partition", "change", "resume"} {
		if got := ask(`fetch('/v1/` + path + `', {method: 'POST', body: '{}'})`); got != "403" {
			t.Errorf("the page's own POST /v1/%s: %s", path, got)
		}
	}
	// Nothing is run or fetched that is not the page's own.
	if got := ask(`fetch('http://127.0.0.2:1/')`); got != "TypeError" {
		t.Errorf("asks elsewhere: %s", got)
	}
	if eval[bool](t, ctx, `(() => { try { document.body.innerHTML = '<b>x</b>'; return true; } catch { return false; } })()`) {
		t.Error("markup can be put in place")
	}
	// Another origin on the same machine.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<!doctype html><title>other</title>"))
	}))
	defer l.Close()
	run(t, ctx, chromedp.Navigate("http://"+l.Addr().String()+"/"))
	for _, script := range []string{
		`fetch('` + link + `v1/house')`,
		`fetch('` + link + `v1/undo', {method: 'POST', body: '{"all":true}'})`,
		`new Promise((y, n) => { const s = document.createElement('script'); s.onload = () => y({status: 'run'}); s.onerror = () => n(new TypeError()); s.src = '` + link + `page.js'; document.head.append(s); })`,
		`new Promise((y, n) => { const f = document.createElement('iframe'); f.src = '` + link + `'; f.onload = () => { try { y({status: f.contentDocument ? 'blocked' : 'TypeError'}); } catch { y({status: 'TypeError'}); } }; document.body.append(f); })`,
	} {
		if got := ask(script); got != "TypeError" {
			t.Errorf("%s: %s", script, got)
		}
	}
	// It can be sent, and the answer says no.
	if got := ask(`fetch('` + link + `v1/undo', {method: 'POST', mode: 'no-cors', body: '{"all":true}'})`); got != "0" && got != "TypeError" {
		t.Errorf("a form of another page: %s", got)
	}
	run(t, ctx, chromedp.Navigate(link))
	within(t, ctx, "live", `document.getElementById('live').textContent === 'live'`)
	within(t, ctx, "nothing is held", `document.getElementById('mode').textContent === 'enforce mode'`)
}
