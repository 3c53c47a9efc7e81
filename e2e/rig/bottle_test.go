package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/e2e/suite"
)

// bottleTally is two programs of 10 loads each, and a mark of each arm that was told.
func bottleTally(t *testing.T, scene string, arms ...string) *tally {
	t.Helper()
	ta := newTally(suite.Shape{Seed: 3}, nil)
	lines := []string{"WALKER 7 before 1 1 1000 local", "SCENE " + scene, "WALKER 0 a 1 2 10 local", "WALKER 1 b 1 2 10 local"}
	for _, arm := range arms {
		lines = append(lines, fmt.Sprintf("MARK %d 1 %s", suite.BottleTag(scene, arm, false), arm))
	}
	for _, text := range append(lines, "SCENE another", "WALKER 0 c 1 1 99999 local", "MARK 9999 1 kernel alone") {
		l, ok := suite.ParseLine(text)
		if err := ta.told(l); err != nil || !ok {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return ta
}

// bottleFile is what the plugin writes of an arm: of 1,000 misses of each program so many are served
// by local memory.
func bottleFile(scene, arm string, localA, localB int) string {
	tag := suite.BottleTag(scene, arm, false)
	var b strings.Builder
	for slot, local := range []int{localA, localB} {
		fmt.Fprintf(&b, "tag=%d slot=%d cpunode=0 memnode=0 loads=1000 stores=1000 misses=%d near=1 far=2\n", tag, slot, local)
		fmt.Fprintf(&b, "tag=%d slot=%d cpunode=0 memnode=1 loads=1000 stores=1000 misses=%d near=0 far=4\n", tag, slot, 1000-local)
	}
	fmt.Fprintf(&b, "tag=%d slot=-1 cpunode=0 memnode=1 loads=5 stores=5 misses=5 near=0 far=0\ntag=%d end\n", tag, tag)
	return b.String()
}

func TestJudgeServed(t *testing.T) {
	good := bottleFile("ten", "kernel alone", 500, 400) + bottleFile("ten", "homenode", 1000, 985)
	for _, c := range []struct {
		name, file, want string
	}{
		{"good", good, ""},
		{"homenode too low", strings.Replace(good, bottleFile("ten", "homenode", 1000, 985), bottleFile("ten", "homenode", 1000, 970), 1), "homenode: 98.5 %"},
		{"cut short", strings.TrimSuffix(good, fmt.Sprintf("tag=%d end\n", suite.BottleTag("ten", "homenode", false))), "nothing for its mark"},
		{"loads are missing", strings.ReplaceAll(good, "loads=1000 stores=1000", "loads=1 stores=2000"), "were counted"},
		{"no cache", strings.ReplaceAll(strings.ReplaceAll(good, " misses=", " was="), "was=", "x="), "of which 0 missed"},
	} {
		counted, err := parseCounts(strings.NewReader(c.file))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		ta := bottleTally(t, "ten", "kernel alone", "homenode")
		text, err := judgeServed("ten", servedEnough)(ta, counted)
		if c.want == "" && (err != nil || !strings.Contains(text, "kernel alone 45.0 %; homenode 99.2 %") || len(ta.bottles) != 2 || ta.bottles[1].least != 0.985) {
			t.Errorf("%s: %q, %v, %+v", c.name, text, err, ta.bottles)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := judgeServed("six-guests", servedEnough)(bottleTally(t, "ten", "homenode"), counts{}); err == nil {
		t.Error("a scene of which nothing was counted passes")
	}
}

// Where there is nothing to gain, homenode may take at most 2 % more of modelled time, from the first page as
// when settled.
func TestJudgeHarmless(t *testing.T) {
	judgeOf := func(scene string, kernel, localCold, localSettled int) (string, error) {
		var ta = newTally(suite.Shape{Seed: 1}, nil)
		var file strings.Builder
		lines := []string{"SCENE " + scene, "WALKER 0 a 1 4 10 local"}
		for arm, local := range map[string][2]int{"kernel alone": {kernel, kernel}, "homenode": {localCold, localSettled}} {
			for i, cold := range []bool{true, false} {
				tag := suite.BottleTag(scene, arm, cold)
				lines = append(lines, fmt.Sprintf("MARK %d 1 %s", tag, arm))
				fmt.Fprintf(&file, "tag=%d slot=0 cpunode=0 memnode=0 loads=1000 stores=0 misses=%d near=0 far=0\n", tag, local[i])
				fmt.Fprintf(&file, "tag=%d slot=0 cpunode=0 memnode=1 loads=1000 stores=0 misses=%d near=0 far=0\ntag=%d end\n", tag, 1000-local[i], tag)
			}
		}
		for _, text := range lines {
			l, _ := suite.ParseLine(text)
			if err := ta.told(l); err != nil {
				t.Fatal(err)
			}
		}
		counted, err := parseCounts(strings.NewReader(file.String()))
		if err != nil {
			t.Fatal(err)
		}
		return judgeHarmless(scene)(ta, counted)
	}
	judge := func(localCold, localSettled int) (string, error) {
		return judgeOf("full", 500, localCold, localSettled)
	}
	if text, err := judge(500, 490); err != nil || text != "modelled time under homenode, of the kernel's alone: from the first page 1.000, settled 1.005" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := judge(500, 400); err == nil || !strings.Contains(err.Error(), "settled: homenode takes 1.0") {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := judge(300, 500); err == nil || !strings.Contains(err.Error(), "from the first page: homenode takes") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := judgeHarmless("full")(newTally(suite.Shape{}, nil), counts{}); err == nil {
		t.Error("a scene of which nothing was counted passes")
	}
	if text, err := judgeOf("idle-local", 1000, 1000, 1000); err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := judgeOf("idle-local", 900, 1000, 1000); err == nil || !strings.Contains(err.Error(), "starts with all memory local") {
		t.Errorf("%q, %v", text, err)
	}
}

// Of three seeds the table has the median, the least and the most; the modelled time is that of the
// kernel alone with the same seed.
func TestBottleTables(t *testing.T) {
	m := machineOf(t, "latency 100 200\nlatency 200 100\nhit 10\nnear 20\nfar 50\n")
	var all []bottled
	for seed, local := range []uint64{40, 60, 50} {
		for arm, local := range map[string]uint64{"kernel alone": local, "homenode": 100} {
			all = append(all, bottled{scene: "ten", arm: arm, seed: seed, threads: 4, least: float64(local) / 100, all: map[place]access{
				{0, 0, 0}: {loads: 100, misses: local}, {0, 0, 1}: {stores: 100, misses: 100 - local},
			}})
		}
	}
	got := bottleTables(all, m)["ten"].rows
	want := [][]string{
		bottleHead,
		{"kernel alone", "settled", "3", "50.0 (40.0 to 60.0) %", "50.0 (40.0 to 60.0) %", "50.0 %", "0.00 %", "80.0 (75.0 to 85.0)", "1.00"},
		{"homenode", "settled", "3", "100.0 %", "100.0 %", "50.0 %", "0.00 %", "55.0", "0.69 (0.65 to 0.73)"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows: %q", len(got), got)
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("row %d: %q, want %q", i, got[i], want[i])
		}
	}
}

func TestOnceASeed(t *testing.T) {
	one := bottled{scene: "two", arm: "homenode", seed: 7, all: map[place]access{{0, 0, 0}: {loads: 5, misses: 1}}}
	two := one
	two.all = map[place]access{{0, 0, 0}: {loads: 5, misses: 2}}
	other := two
	other.seed = 8
	if once, err := onceASeed([]bottled{one, one, other}); err != nil || len(once) != 2 {
		t.Error(once, err)
	}
	if _, err := onceASeed([]bottled{one, two}); err == nil {
		t.Error("two counts of one seed in virtual time pass for the same")
	}
	one.scene, two.scene = "ten", "ten"
	if once, err := onceASeed([]bottled{one, two}); err != nil || len(once) != 1 || once[0].all[place{}].misses != 2 {
		t.Error(once, err)
	}
}

// What is kept is read again as it was, also of two guests one after the other, with where it is from.
func TestBottlesAreKept(t *testing.T) {
	dir := t.TempDir()
	one := bottled{scene: "two", arm: "numad's rule", seed: 7, threads: 4, least: 0.25, cold: true,
		all: map[place]access{{0, 0, 0}: {5, 6, 4, 3, 2}, {0, 0, 1}: {loads: 9, misses: 8}, {0, 1, -1}: {stores: 1}}}
	same := one
	settled := one
	settled.cold = false
	var both []byte
	for i, all := range [][]bottled{{one, settled}, {same}} {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := writeBottles(name, fmt.Sprintf("guest %d", i), all); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(name)
		both = append(both, b...)
	}
	got, origins, err := readBottles(strings.NewReader(string(both)))
	if err != nil || !reflect.DeepEqual(got, []bottled{one, settled, same}) || !slices.Equal(origins, []string{"guest 0", "guest 1"}) {
		t.Errorf("%+v, %q, %v", got, origins, err)
	}
	file := filepath.Join(dir, "both")
	if err := os.WriteFile(file, both, 0o644); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := bottlePage(&page, "../machines/xeon-8163.txt", []string{file}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## In virtual time", "| numad's rule | from the first page | 1 | 33.3 % | 25.0 % |", "latency 81.6 and 145.9; 144.9 and 81.2 ns", "*modelled*", "- guest 1\n", "(99.2 %)"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	for name, text := range map[string]string{
		"a column less": "two,7,homenode,true,4,0.5,0,0,1,1,1,1\n",
		"a word":        "two,seven,homenode,true,4,0.5,0,0,1,1,1,1,1\n",
		"neither":       "two,7,homenode,perhaps,4,0.5,0,0,1,1,1,1,1\n",
	} {
		if got, _, err := readBottles(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
	if err := bottlePage(&page, "../machines/xeon-8163.txt", nil); err == nil {
		t.Error("a page of no counts")
	}
	if err := bottlePage(&page, "../machines/none.txt", []string{file}); err == nil {
		t.Error("a page for no machine")
	}
}

// In short there is a column for each scene that was counted, and a dash where an arm was not.
func TestBottleSummary(t *testing.T) {
	of := func(scene, arm string, cold bool, local uint64) bottled {
		return bottled{scene: scene, arm: arm, cold: cold, all: map[place]access{{0, 0, 0}: {loads: 100, misses: local}, {0, 0, 1}: {loads: 100, misses: 100 - local}}}
	}
	got := bottleSummary([]bottled{of("pods", "kernel alone", true, 40), of("pods", "kernel alone", true, 60), of("pods", "homenode", true, 100), of("wide", "kernel alone", false, 25), of("two", "kernel alone", false, 1)}).rows
	want := map[string][]string{
		"managed by": {"ten pods, from the first page", "wider than a node"}, "*seeds*": {"1 to 2", "1"},
		"kernel alone": {"50.0 (40.0 to 60.0) %", "25.0 %"}, "homenode": {"100.0 %", "-"}, "taskset": {"-", "-"},
	}
	for _, row := range got {
		if w, ok := want[row[0]]; ok && !slices.Equal(row[1:], w) {
			t.Errorf("%s: %q, want %q", row[0], row[1:], w)
		}
	}
	if len(got) != 2+len(suite.BottleArms) { // the head and the seeds
		t.Errorf("%d rows: %q", len(got), got)
	}
}

func TestBottleTagsDiffer(t *testing.T) {
	seen := map[uint32]bool{0: true}
	for _, scene := range suite.BottleScenes {
		for _, arm := range suite.BottleArms {
			for _, cold := range []bool{false, true} {
				tag := suite.BottleTag(scene, arm, cold)
				if seen[tag] {
					t.Errorf("%s, %s, cold %v: tag %d is taken", scene, arm, cold, tag)
				}
				seen[tag] = true
			}
		}
	}
}

func TestParseCache(t *testing.T) {
	for text, want := range map[string]suite.Cache{
		"1024,16,64":  {KiB: 1024, Ways: 16, Line: 64},
		"33,11,64,12": {KiB: 33, Ways: 11, Line: 64, CPUs: 12},
		"1024,16":     {}, "": {}, "1,2,3,4,5": {}, "1024,0,64": {}, "1024,x,64": {}, "10,7,64": {},
	} {
		got, err := suite.ParseCache(text)
		if got != want || (err == nil) != (want.KiB > 0) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// What the shapes hand to the plugin is what the plugin's cache takes.
func TestCachesOfShapes(t *testing.T) {
	program := traceProgram(t)
	for _, s := range suite.Shapes {
		if c := s.Cache; c.KiB > 0 {
			answers(t, program, cacheShape{s.Nodes, c.KiB << 10, c.Ways, c.Line}, []*touch{{0, false, 0}})
			if args := strings.Join(qemuArgs(s, tools{}, "", "", "", nil), " "); !strings.Contains(args, fmt.Sprintf("cache=%d,ways=%d,line=%d", c.KiB<<10, c.Ways, c.Line)) {
				t.Errorf("%s: %s", s.Name, args)
			}
		}
	}
}
