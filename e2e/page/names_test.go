package page

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/house"
	"github.com/homenode/homenode/ui/web"
)

// awaited waits for the promise that a script is.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// hostile is a Backend whose workloads are called what would do harm as markup, or on a terminal.
type hostile struct{ api.Backend }

var names = []string{
	`<script>window.harmed=1</script>`, `<img src=x onerror="window.harmed=1">`, `"><svg onload=window.harmed=1>`, `javascript:window.harmed=1`,
	"\x1b[31mred\x1b[0m\x07", "user\u202egnp.exe", "a\u2066b\u2069c", "line\nend\r", `__proto__`, `constructor`, `'; DROP TABLE--`, `${window.harmed=1}`,
}

func (hostile) Status(context.Context) (api.Status, error) {
	one := 1.0
	s := api.Status{Schema: "homenode-status/3", Mode: "enforce", Time: time.Now(), Problems: []string{"<script>window.harmed=1</script> cannot be read"},
		Nodes: []api.Node{{ID: 0, CPUs: "0-3", MemoryKiB: 4 << 20, FreeKiB: 1 << 20}, {ID: 1, CPUs: "4-7", MemoryKiB: 4 << 20, FreeKiB: 1 << 20}}}
	value, slack, missed := 1.4, 0.3, -0.5
	s.Sharing = &api.Sharing{Goals: []api.ShareGoal{{ID: workload.ID(names[0]), Metric: names[1], Value: &value, Most: 2, Unit: names[2], Slack: &slack, State: "held", Limits: true}}}
	s.Trend = &api.Trend{Since: s.Time.Add(-time.Minute), From: s.Time.Add(-time.Minute), StepS: 5, MovedAt: []time.Time{}}
	for i := range 12 {
		s.Trend.Local = append(s.Trend.Local, &one)
		s.Trend.Slack = append(s.Trend.Slack, []*float64{nil, &slack, &slack, &missed}[min(3, i/3)])
	}
	for i, name := range names {
		s.Workloads = append(s.Workloads, api.Workload{ID: workload.ID(name), Name: name, Class: workload.Shared, CPUs: 1, Home: fmt.Sprint(i % 2), MemoryKiB: 200 << 10, Locality: &one, LocalityExpected: &one,
			State: api.StateNoAnswer, Why: name})
	}
	return s, nil
}

func (h hostile) Explain(ctx context.Context, id workload.ID) (api.Explanation, error) {
	s, _ := h.Status(ctx)
	for _, w := range s.Workloads {
		if w.ID == id {
			return api.Explanation{Workload: w, Decision: plan.Decision{Reasons: []words.Reason{words.Plain(w.Name)}}, Journal: []plan.Entry{{Kind: plan.CgroupCPUs, Path: w.Name, Old: w.Name, New: w.Name}},
				Events: []plan.Event{{Text: w.Name}}}, nil
		}
	}
	return api.Explanation{}, &api.Error{Code: api.NotFound, Text: "no workload " + string(id)}
}

func (hostile) History(context.Context, api.HistoryQuery) (api.History, error) {
	var h api.History
	for i, name := range names {
		h.Events = append(h.Events, plan.Event{Seq: uint64(i + 1), Time: time.Now(), Kind: plan.EventPlan, Workload: workload.ID(name), Text: name})
	}
	return h, nil
}

func (hostile) Room(context.Context, string) (api.Room, error) {
	h, err := topology.FromSynthetic("package:2 node:1(memory=4GiB) core:4")
	return api.Room{Host: h}, err
}

// served is the link to the page of hostile work on a host of that name; token "" asks for none.
func served(t *testing.T, host, token string) (link string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- api.ServeTCP(ctx, l, hostile{}, api.Remote{Token: token, Page: web.Files, Houses: api.NewHouses(hostile{}, host, house.Painter{})})
	}()
	t.Cleanup(func() { stop(); <-done })
	return "http://" + l.Addr().String() + "/"
}

// TestHostileNames: they show as text, run nothing and turn nothing.
func TestHostileNames(t *testing.T) {
	ctx := browser(t)
	link := served(t, "<b>host</b>", "")
	s := watch(ctx)
	look(t, ctx, link, 1280, 900, false)
	shot(t, ctx, "hostile")
	if !eval[bool](t, ctx, `document.querySelectorAll('#curve path.slack').length === 1 && !document.getElementById('slack').hidden`) {
		t.Error("no curve of the slack of the latency goal")
	}
	if goal := eval[string](t, ctx, `document.getElementById('figures').textContent`); !strings.Contains(goal, "1.4 of 2") {
		t.Errorf("no latency goal among the figures: %s", goal)
	}
	all := eval[[]string](t, ctx, `[...document.querySelectorAll('#picture .tile')].map((t) => t.dataset.id)`)
	if len(all) != len(names) {
		t.Errorf("%d tiles for %d names: %q", len(all), len(names), all)
	}
	for i := range all {
		run(t, ctx, chromedp.Evaluate(fmt.Sprintf(`document.querySelectorAll('#picture .tile')[%d].dispatchEvent(new MouseEvent('click', {bubbles: true}))`, i), nil))
		within(t, ctx, "opened", `!document.getElementById('detail').hidden && document.getElementById('detail-body').textContent !== ''`)
		run(t, ctx, chromedp.Evaluate(`document.getElementById('close').click()`, nil))
	}
	if eval[bool](t, ctx, `'harmed' in window`) {
		t.Error("a name was run")
	}
	if n := eval[int](t, ctx, `document.querySelectorAll('script:not([src="page.js"]), img:not([src="icon.svg"]), b script').length`); n > 0 {
		t.Errorf("%d elements come from names", n)
	}
	if bad := eval[bool](t, ctx, `/[\u0000-\u0008\u000b-\u001f\u007f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent + [...document.querySelectorAll('[aria-label]')].map((e) => e.getAttribute('aria-label')))`); bad {
		t.Error("control characters, or marks that turn text, are on the page")
	}
	s.fine(t, link)
}

// TestToken: without the token the page shows nothing of the host; the link brings it, and leaves no trace in the
// address.
func TestToken(t *testing.T) {
	ctx := browser(t)
	link := served(t, "host", "0123456789abcdef-token")
	run(t, ctx, chromedp.Navigate(link))
	within(t, ctx, "asks for it", `document.getElementById('ask').checkVisibility() && document.querySelectorAll('.tile').length === 0`)
	run(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(link+"#0123456789abcdef-token"))
	within(t, ctx, "live", `document.querySelectorAll('.tile').length > 0`)
	if at := eval[string](t, ctx, `location.href`); at != link {
		t.Errorf("the address is %s", at)
	}
	if c := eval[string](t, ctx, `document.cookie`); c != "" {
		t.Errorf("cookies: %s", c)
	}
}
