package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/e2e/suite"
)

func TestChooseKeepsJudgesWithTheirTests(t *testing.T) {
	for _, pattern := range []string{"^count.exact$", "^count.kernel$", "^homenode.alert$"} {
		jobs := choose(options{run: regexp.MustCompile(pattern)})
		if len(jobs) != 1 || len(jobs[0].tests) != 2 {
			t.Errorf("%s: %v", pattern, jobs)
		}
	}
	for _, w := range choose(options{run: regexp.MustCompile("")}) {
		for _, e := range w.tests {
			if e.OnHost && !slices.ContainsFunc(w.tests, func(before suite.Test) bool { return before.Name == e.After }) {
				t.Errorf("%s: %s without %s", w.name, e.Name, e.After)
			}
		}
	}
}

func TestEveryHostTestHasAJudge(t *testing.T) {
	for _, e := range suite.Tests {
		if _, ok := judges[e.Name]; ok != e.OnHost {
			t.Errorf("%s: on the host %v, judge %v", e.Name, e.OnHost, ok)
		}
	}
}

// Silence is failure: a guest that dies half way leaves failed tests behind.
func TestMissingTestsFail(t *testing.T) {
	s, _ := suite.ShapeNamed("n4")
	all := slices.DeleteFunc(suite.ForShape("n4"), func(e suite.Test) bool { return e.OnHost })
	r := &report{}
	g := &guest{work: work{shape: s, tests: all}, report: r}
	ta := newTally(s, all)
	r.add(g.work, ta.take(suite.Result{Name: all[0].Name, Outcome: suite.OK}))
	g.settle(ta, "Kernel panic - not syncing")
	if r.passed != 1 || r.failed != len(all) { // all others, and the guest itself
		t.Errorf("%d passed, %d failed of %d", r.passed, r.failed, len(all))
	}
	if got := ta.take(suite.Result{Name: all[0].Name, Outcome: suite.OK}); got.Outcome != suite.Fail {
		t.Errorf("a second result under one name: %v", got)
	}
	if got := ta.take(suite.Result{Name: "kernel.unheard-of", Outcome: suite.OK}); got.Outcome != suite.Fail {
		t.Errorf("a test nobody knows: %v", got)
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		nodes, mib int
		want       []ram
	}{
		{2, 1024, []ram{{0, 1 << 30, 0}, {1 << 30, 2 << 30, 1}}},
		{4, 1024, []ram{{0, 1 << 30, 0}, {1 << 30, 2 << 30, 1}, {4 << 30, 5 << 30, 2}, {5 << 30, 6 << 30, 3}}},
		{1, 4096, []ram{{0, 2 << 30, 0}, {4 << 30, 6 << 30, 0}}},
	} {
		if got := ranges(suite.Shape{Nodes: c.nodes, NodeMiB: c.mib}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d nodes of %d MiB: %x", c.nodes, c.mib, got)
		}
	}
}

func TestJudgeExact(t *testing.T) {
	const good = "tag=2 slot=0 cpunode=0 memnode=1 loads=6 stores=8\ntag=2 slot=0 cpunode=1 memnode=1 loads=2 stores=0\ntag=2 end\n"
	for _, c := range []struct {
		name, file string
		ok         bool
	}{
		{"exact", good, true},
		{"cut short", strings.TrimSuffix(good, "tag=2 end\n"), false},
		{"one lost", strings.Replace(good, "loads=6", "loads=5", 1), false},
		{"one too many", strings.Replace(good, "stores=8", "stores=9", 1), false},
		{"off the map", strings.ReplaceAll(good, "memnode=1", "memnode=-1"), false},
		{"wrong tag", strings.ReplaceAll(good, "tag=2", "tag=3"), false},
	} {
		ta := newTally(suite.Shape{}, nil)
		for _, l := range []string{"WALKER 0 w 1 1 4 interleave, x", "MARK 2 2 a phase"} {
			line, _ := suite.ParseLine(l)
			if err := ta.told(line); err != nil {
				t.Fatal(err)
			}
		}
		got, err := parseCounts(strings.NewReader(c.file))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, err := judgeExact(ta, got); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestArchiveIsReadable(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("no cpio to read it with")
	}
	dir := t.TempDir()
	from := filepath.Join(dir, "prog")
	os.WriteFile(from, []byte("12345"), 0o644)
	image := filepath.Join(dir, "image")
	if err := writeArchive(image, []archived{{"bin/prog", from}}); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(image)
	c := exec.Command("cpio", "-it", "--quiet")
	c.Stdin = bytes.NewReader(b)
	list, err := c.Output()
	if err != nil || !strings.Contains(string(list), "bin/prog") {
		t.Errorf("%s: %v", list, err)
	}
}

// Only what a program in the guest cannot have done is tried again.
func TestEmulatorsFault(t *testing.T) {
	for _, tt := range []struct {
		why, crash string
		up, want   bool
	}{
		{"", "", true, false},
		{"[ 2.8] Oops: int3: 0000 [#1] SMP NOPTI", "x", false, true},
		{"[ 42.8] Oops: int3: 0000 [#1] SMP NOPTI", "x", true, true},
		{"[ 2.8] BUG: kernel NULL pointer dereference", "x", false, true},
		{"[ 42.8] BUG: kernel NULL pointer dereference", "x", true, false},
		{"the guest hangs: in homenode.kill", "", true, false},
		{"the guest hangs: it does not come up for 3m0s", "", false, false},
		{"the guest stands still: in homenode.kill its first process is not heard for 2m0s", "", true, true},
	} {
		g := &guest{crash: tt.crash, up: tt.up}
		if got := g.emulatorsFault(tt.why); got != tt.want {
			t.Errorf("%q, up %v: %v, want %v", tt.why, tt.up, got, tt.want)
		}
	}
}

// Only failed tests are run again, and only what passes then is forgiven.
func TestFailedTestsAgain(t *testing.T) {
	first, counting := work{name: "n4-1"}, work{name: "n4-count"}
	first.tests = []suite.Test{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	counting.tests = []suite.Test{{Name: "walk"}, {Name: "judge", OnHost: true, After: "walk"}, {Name: "other"}}
	r := &report{}
	fail := func(r *report, w work, names ...string) {
		for _, n := range names {
			r.add(w, suite.Result{Name: n, Outcome: suite.Fail})
		}
	}
	fail(r, first, "b", "c", "guest")
	fail(r, counting, "judge", "guest")
	var got []string
	for _, w := range r.failedTests([]work{first, counting}) {
		got = append(got, w.name+": "+strings.Join(names(w.tests), " "))
	}
	if want := []string{"n4-1: b c", "n4-count: walk judge"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("run again: %q, wanted %q", got, want)
	}
	second := &report{}
	fail(second, first, "c")
	for _, x := range []testOf{{"n4-1", "b"}, {"n4-1", "guest"}, {"n4-count", "walk"}, {"n4-count", "judge"}, {"n4-count", "guest"}} {
		second.add(work{name: x.guest}, suite.Result{Name: x.test, Outcome: suite.OK})
	}
	r.merge(second)
	if want := []string{"b", "judge", "guest"}; r.failed != 2 || r.passed != 3 || !reflect.DeepEqual(r.secondTime, want) {
		t.Errorf("%d failed, %d passed, the second time %q; wanted 2, 3, %q", r.failed, r.passed, r.secondTime, want)
	}

	// What is skipped when it is run again has not passed.
	r = &report{}
	fail(r, first, "b")
	second = &report{}
	second.add(first, suite.Result{Name: "b", Outcome: suite.Skip})
	if r.merge(second); r.failed != 1 || len(r.secondTime) > 0 {
		t.Errorf("skipped the second time: %d failed, the second time %q", r.failed, r.secondTime)
	}

	// A guest in which nothing else failed is not forgiven: nothing was run again.
	r = &report{}
	fail(r, first, "guest")
	if again := r.failedTests([]work{first}); len(again) > 0 {
		t.Errorf("run again: %v", again)
	}
	r.merge(&report{})
	if r.failed != 1 || r.passed != 0 {
		t.Errorf("a guest's own failure: %d failed, %d passed", r.failed, r.passed)
	}
}

// What promtool is given, by the lines of two scrapes; a scrape that comes again, from a guest that
// was booted again, takes the place of the first.
func TestJudgeAlert(t *testing.T) {
	out, err := exec.Command("../fetch-prometheus.sh").Output()
	if err != nil || len(out) == 0 {
		t.Skip("no promtool here")
	}
	for _, c := range []struct {
		name, home string
		ok         bool
	}{{"comes home", "1", true}, {"stays torn", "0.25", false}} {
		ta := newTally(suite.Shape{}, nil)
		for _, phase := range []string{"torn", "torn", "home"} {
			ratio := "0.25"
			if phase == "home" {
				ratio = c.home
			}
			for n, text := range []string{
				"# HELP homenode_workload_home_memory_ratio Share.", "# TYPE homenode_workload_home_memory_ratio gauge",
				`homenode_workload_home_memory_ratio{workload="/db"} ` + ratio,
				"# HELP homenode_workload_memory_bytes Memory.", "# TYPE homenode_workload_memory_bytes gauge",
				`homenode_workload_memory_bytes{node="0",workload="/db"} 2.8e+08`,
			} {
				line, ok := suite.ParseLine(fmt.Sprintf("SCRAPE %s %d %s", phase, n, text))
				if err := ta.told(line); err != nil || !ok {
					t.Fatal(err)
				}
			}
		}
		if _, err := judgeAlert(ta, nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
