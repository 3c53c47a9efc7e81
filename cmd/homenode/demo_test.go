package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/report"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/tree"
)

// eventually waits for something that comes by itself.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// A demo answers on its socket as any daemon does, and leaves nothing behind.
// startDemo starts a demo and connects to it.
func startDemo(t *testing.T, ctx context.Context, o cli.DemoOptions) (place cli.DemoPlace, c *api.Client, ended chan error) {
	t.Helper()
	ready, ended := make(chan cli.DemoPlace, 1), make(chan error, 1)
	o.Ready = func(p cli.DemoPlace) { ready <- p }
	go func() { ended <- demo(ctx, o) }()
	select {
	case place = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	c, err := api.Dial(place.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return place, c, ended
}

func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	place, c, ended := startDemo(t, ctx, cli.DemoOptions{Nodes: 2, Seed: 1, Speed: 20})
	var s api.Status
	eventually(t, "a page move ends", func() bool {
		var err error
		if s, err = c.Status(ctx); err != nil {
			t.Fatal(err)
		}
		for _, w := range s.Workloads {
			if w.Move != nil && w.Move.State == "done" {
				return true
			}
		}
		return false
	})
	if len(s.Nodes) != 2 || s.Mode != "enforce" {
		t.Errorf("%d nodes, mode %s", len(s.Nodes), s.Mode)
	}
	// A report on its socket has what a daemon's record has: the curve, the machine, the homes.
	env := environment()
	var out strings.Builder
	env.Stdout = &out
	if code := tree.Main(ctx, env, []string{"report", "--json", "--socket", place.Socket}); code != 0 {
		t.Errorf("report: status %d", code)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil || len(r.Locality.Points) < 2 || r.Machine == nil || len(r.Homes) == 0 || r.Moves.Count == 0 {
		t.Errorf("report: %d points, machine %v, %d homes, %d moves, notes %q, %v", len(r.Locality.Points), r.Machine, len(r.Homes), r.Moves.Count, r.Notes, err)
	}
	if x, err := c.Explain(ctx, "vm:db1"); err != nil || x.Decision.Workload != "vm:db1" {
		t.Errorf("explain: %v, %v", x.Decision, err)
	}
	if os.Geteuid() == 0 { // who may change something besides root is the group's
		if u, err := c.Undo(ctx, api.Which{All: true}); err != nil || len(u.Restored) == 0 || len(u.Failed) > 0 {
			t.Errorf("undo: %d restored, %d failed, %v", len(u.Restored), len(u.Failed), err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(os.TempDir() + "/*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// The clock of a demo starts with its first viewer, who sees all tenants, badly placed; another
// story starts anew at the same place, and each ends with what came of it.
func TestDemoStories(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, ended, next := make(chan cli.DemoPlace, 1), make(chan error, 1), make(chan string)
	var mu sync.Mutex
	var stories []string
	go func() {
		ended <- demo(ctx, cli.DemoOptions{Nodes: 4, Seed: 1, Speed: 1, Story: "homenode", Next: next, Ready: func(p cli.DemoPlace) { ready <- p },
			Ended: func(story string, s api.Status) {
				mu.Lock()
				defer mu.Unlock()
				stories = append(stories, story+" "+s.Mode)
			}})
	}()
	place := <-ready
	came := time.Now()
	c, err := api.Dial(place.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Status(ctx)
	switch {
	case err != nil:
		t.Fatal(err)
	case s.Trend == nil || s.Trend.Since.Before(came):
		t.Fatalf("the clock started at %+v, the viewer came at %v", s.Trend, came)
	case len(s.Workloads) != 20 || s.Trend.First == nil || *s.Trend.First < 0.3 || *s.Trend.First > 0.5:
		t.Errorf("the first viewer sees %d workloads and a trend of %+v", len(s.Workloads), s.Trend)
	}
	next <- "kernel"
	eventually(t, "the kernel's story", func() bool {
		now, err := c.Status(ctx)
		return err == nil && now.Mode == "observe" && now.Trend.Since.After(s.Trend.Since)
	})
	if page, err := http.Get(place.Page); err != nil || page.StatusCode != http.StatusOK {
		t.Errorf("the page is no longer at %s: %v", place.Page, err)
	} else {
		page.Body.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := []string{"homenode enforce", "kernel observe"}; !slices.Equal(stories, want) {
		t.Errorf("ended: %q, want %q", stories, want)
	}
}

// A recording is the same bytes for the same seed, others for another, and small.
func TestRecord(t *testing.T) {
	record := func(seed string) (all string) {
		dir := t.TempDir()
		e := &cli.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: os.Stderr, Getenv: func(string) string { return "" }, Demo: demo}
		if code := tree.Main(t.Context(), e, []string{"demo", "--seed", seed, "--record", dir}); code != 0 {
			t.Fatalf("exit status %d", code)
		}
		for _, name := range []string{"top.svg", "top-moving.svg"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(text) > 300<<10 || xml.Unmarshal(text, new(struct{})) != nil {
				t.Errorf("%s: %d bytes, %v, %v", name, len(text), err, xml.Unmarshal(text, new(struct{})))
			}
			all += string(text)
		}
		return all
	}
	one := record("1")
	if one != record("1") {
		t.Error("seed 1 gives other bytes the second time")
	}
	if one == record("2") {
		t.Error("seed 2 gives the bytes of seed 1")
	}
	if n := strings.Count(one, "<animate "); n < 20 {
		t.Errorf("%d lines change", n)
	}
}

// For some minutes pages move again and again, batch work is squeezed, nothing fails, and in the
// end all is as it was.
func TestHouseIsKept(t *testing.T) {
	for _, nodes := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			house, err := sim.NewHouse(sim.HomenodeWorks, nodes, 7, fastClock{time.Now(), 1})
			if err != nil {
				t.Fatal(err)
			}
			d, err := daemon.New(demoDaemon(house, fastClock{time.Now(), 1}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- d.Run(ctx) }()
			moves, minutes, shared := 0, 4, 0
			if now, err := d.Share(ctx, api.ShareOrder{On: true}); err != nil || now.Target <= 0 {
				t.Errorf("sharing: %+v, %v", now, err)
			}
			for minute := range minutes {
				time.Sleep(time.Minute)
				h, err := d.History(ctx, api.HistoryQuery{Limit: 10_000, Since: time.Now().Add(-time.Minute)})
				if err != nil {
					t.Fatal(err)
				}
				here := 0
				for _, e := range h.Events {
					if e.Move != nil && e.Move.State == "done" {
						here++
					}
					if strings.HasPrefix(e.Text, "set-cgroup") {
						if shared++; e.Error {
							t.Errorf("%d nodes: %s: %s", nodes, e.Workload, e.Text)
						}
					}
					if e.Error && e.Kind != plan.EventPlan && !strings.Contains(e.Text, "no longer exists") {
						t.Errorf("%d nodes, minute %d: %s %s: %s", nodes, minute, e.Kind, e.Workload, e.Text)
					}
				}
				moves += here
			}
			t.Logf("%d nodes: %d moves", nodes, moves)
			if nodes > 2 && shared == 0 {
				t.Errorf("%d nodes: no batch work was squeezed", nodes)
			}
			if nodes > 1 && moves < 2*minutes {
				t.Errorf("%d nodes: %d page moves in %d minutes", nodes, moves, minutes)
			}
			s, err := d.Status(ctx)
			if err != nil || len(s.Workloads) < 4*nodes || len(s.Problems) > 0 {
				t.Errorf("%d workloads, problems %q, %v", len(s.Workloads), s.Problems, err)
			}
			u, err := d.Undo(ctx, api.Which{All: true})
			if err != nil || len(u.Restored) == 0 || len(u.Failed)+len(u.Theirs) > 0 {
				t.Errorf("undo: %d restored, %v failed, %v theirs, %v", len(u.Restored), u.Failed, u.Theirs, err)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
