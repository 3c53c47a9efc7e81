package paper

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/report"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/sim"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("testdata/%s (-want +got); if it is right, run go test ./ui/paper -update\n%s", name, d)
	}
}

// house is what a flight recorder wrote of a busy house of four nodes, half of whose work
// was found running.
func house(t testing.TB, events int) (checkpoint []byte, lines [][]byte) {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:2(memory=32GiB) core:8 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := sim.Generate(sim.Generation{Kind: "phases", Host: h, Policy: plan.DefaultPolicy(), Seed: 7, Events: events, Found: 0.8})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sim.Run(context.Background(), sim.Options{Trace: trace, Seed: 7, Policies: []string{"homenode"}, Record: func(r control.Recorded) {
		if r.Before != nil && checkpoint == nil {
			checkpoint = r.Before
		}
		r.Before = nil
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint, lines[:len(lines)/2] // before the work ends
}

const hostile = "</table><script>alert(1)</script>\x1b[31m`rm -rf`"

func collected(t testing.TB, checkpoint []byte, lines [][]byte) report.Report {
	t.Helper()
	c := report.New(time.Time{}, time.Time{})
	at := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	c.History([]plan.Event{
		{Seq: 1 << 40, Time: at, Kind: plan.EventOrder, Workload: "/system.slice/" + hostile, Text: "carol as root asked to undo " + hostile, By: &plan.Asker{User: "root", Login: "carol"}},
		{Seq: 1<<40 + 1, Time: at, Kind: plan.EventStep, Workload: hostile, Code: words.StepFailed, Text: "set-mems to 1 failed: " + hostile, Error: true},
	})
	if err := c.Checkpoint(checkpoint); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if err := c.Line(line); err != nil {
			t.Fatal(err)
		}
	}
	r, err := c.Done(hostile, 10)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A page is well formed, loads nothing, runs nothing, and text of a host is text.
func sound(t *testing.T, page string) {
	t.Helper()
	if m := regexp.MustCompile(`(?i)(src|href)=|@import|url\(|<script|<link|<iframe|\son[a-z]+=|javascript:`).FindString(page); m != "" {
		t.Errorf("the page refers to something or runs something: %s", m)
	}
	if i := strings.IndexFunc(page, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
		t.Errorf("a control character: %q", page[max(0, i-40):i+10])
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "%!") || strings.Contains(page, "ZgotmplZ") {
		t.Error("a value has no text")
	}
	d := xml.NewDecoder(strings.NewReader(regexp.MustCompile(`<!doctype html>|<meta [^>]*>`).ReplaceAllString(page, "")))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); err != nil {
			if err.Error() != "EOF" {
				t.Error(err)
			}
			return
		}
	}
}

func TestReport(t *testing.T) {
	checkpoint, lines := house(t, 300)
	r := collected(t, checkpoint, lines)
	page, err := Report(r)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, page)
	if again, _ := Report(collected(t, checkpoint, lines)); again != page {
		t.Error("the same records make another page")
	}
	if r.Looks < 100 || r.Moves.Count == 0 || r.Locality.Memory.After == nil || len(r.Homes) == 0 || len(r.Worst) == 0 {
		t.Errorf("%d looks, %d moves, %d parts, %d worst: this is no test", r.Looks, r.Moves.Count, len(r.Homes), len(r.Worst))
	}
	golden(t, "report.html", page)
	if out := os.Getenv("HOMENODE_REPORT_OUT"); out != "" { // to look at it
		os.WriteFile(out, []byte(page), 0o644)
	}
}

// A report of a history alone, of nothing but a look, and an empty one are pages, too.
func TestLittle(t *testing.T) {
	for _, r := range []report.Report{{}, {Mode: "observe", Machine: &report.Machine{}}, {Homes: []report.HomesAt{{}}, Moves: report.Moves{Count: 1, Largest: []report.Moved{{}}}}} {
		page, err := Report(r)
		if err != nil {
			t.Fatal(err)
		}
		sound(t, page)
	}
}
