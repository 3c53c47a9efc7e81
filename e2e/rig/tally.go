package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// tally is what one guest has said so far, held against what was expected.
type tally struct {
	shape    suite.Shape
	dir      string // of the guest
	kernel   string
	qemu     string // the emulator's file
	expected []suite.Test
	results  map[string]suite.Result
	marks    []markRecord
	walkers  []walkerRecord
	homes    map[int][]int
	scrapes  map[string][]string // lines of /metrics, by phase
	cases    []caseRecord
	sharing  *sharing // of the cases, once judged
	bottles  []bottled
	scene    string // of the bottle, that is going on
	lines    []lineRow
}

type markRecord struct {
	tag    uint32
	passes int
	phase  string
	homes  map[int][]int // of the walkers when it was made, by slot
	// scene and walkers are those that went on when it was made.
	scene   string
	walkers []walkerRecord
}

// counts reports whether the mark ended a scene with this walker.
func (m *markRecord) counts(w walkerRecord) bool {
	return m.scene == "" || slices.Contains(m.walkers, w)
}

// everyWalker returns the walkers of all scenes.
func (t *tally) everyWalker() (all []walkerRecord) {
	for _, m := range t.marks {
		if m.scene == "" {
			continue
		}
		for _, w := range m.walkers {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	for _, w := range t.walkers {
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// caseRecord is a row of a table whose last cells the host knows, by the tag of the mark.
type caseRecord struct {
	tag   uint32
	cells []string
}

type walkerRecord struct {
	slot, mib, threads, loads int
	name, start               string
}

func newTally(s suite.Shape, expected []suite.Test) *tally {
	return &tally{shape: s, expected: expected, results: map[string]suite.Result{}, homes: map[int][]int{},
		scrapes: map[string][]string{}}
}

func (t *tally) limit(name string) time.Duration {
	for _, e := range t.expected {
		if e.Name == name {
			return suite.Slack * e.Limit
		}
	}
	return 0
}

// take notes a result. A name that was not expected, or a second result under a
// name, is a fault of the rig and shows as a failure.
func (t *tally) take(r suite.Result) suite.Result {
	known := false
	for _, e := range t.expected {
		known = known || e.Name == r.Name
	}
	_, twice := t.results[r.Name]
	if !known || twice {
		r.Outcome, r.Text = suite.Fail, fmt.Sprintf("not expected (known %v, reported before %v): %s", known, twice,
			r.Text)
	}
	t.results[r.Name] = r
	return r
}

// missing lists guest tests without a result.
func (t *tally) missing() []suite.Test {
	var r []suite.Test
	for _, e := range t.expected {
		if _, ok := t.results[e.Name]; !ok && !e.OnHost {
			r = append(r, e)
		}
	}
	return r
}

// told notes a record that a test on the host judges by.
func (t *tally) told(l suite.Line) error {
	var err error
	f := strings.Fields(l.Rest)
	switch l.Kind {
	case "MARK":
		m := markRecord{phase: strings.Join(f[min(2, len(f)):], " ")}
		if _, err = fmt.Sscan(l.Rest, &m.tag, &m.passes); err == nil {
			m.homes = maps.Clone(t.homes)
			m.scene, m.walkers = t.scene, slices.Clone(t.walkers)
			t.marks = append(t.marks, m)
		}
	case "SCENE":
		t.scene, t.walkers = l.Rest, nil
	case "WALKER":
		var w walkerRecord
		if _, err = fmt.Sscan(l.Rest, &w.slot, &w.name, &w.mib, &w.threads, &w.loads); err == nil {
			w.start = strings.Join(f[5:], " ")
			t.addWalker(w)
		}
	case "HOME":
		var slot int
		var nodes string
		if _, err = fmt.Sscan(l.Rest, &slot, &nodes); err == nil {
			t.homes[slot], err = parseList(nodes)
		}
	case "CASE":
		var x caseRecord
		if _, err = fmt.Sscan(l.Rest, &x.tag); err == nil {
			x.cells = strings.Split(strings.SplitN(l.Rest, " ", 2)[1], "|")
			t.cases = append(t.cases, x)
		}
	case "LINES":
		var x lineRow
		if x, err = parseLineRow(l.Rest); err == nil {
			t.lines = append(t.lines, x)
		}
	case "SCRAPE":
		var phase string
		var n int
		if _, err = fmt.Sscan(l.Rest, &phase, &n); err == nil {
			text := strings.SplitN(l.Rest, " ", 3)[2]
			// from 0 again in a guest that is booted again
			t.scrapes[phase] = append(t.scrapes[phase][:min(n, len(t.scrapes[phase]))], text)
		}
	}
	if err != nil {
		return fmt.Errorf("record %s %q: %w", l.Kind, l.Rest, err)
	}
	return nil
}

func (t *tally) addWalker(w walkerRecord) {
	for i := range t.walkers {
		if t.walkers[i].slot == w.slot {
			t.walkers[i] = w
			return
		}
	}
	t.walkers = append(t.walkers, w)
}

// parseList reads a node list as the guest writes it: "0", "0-1", "0,2".
func parseList(s string) ([]int, error) {
	var r []int
	for part := range strings.SplitSeq(s, ",") {
		var a, z int
		if n, _ := fmt.Sscanf(part, "%d-%d", &a, &z); n == 1 {
			z = a
		} else if n != 2 {
			return nil, fmt.Errorf("node list %q", s)
		}
		for i := a; i <= z; i++ {
			r = append(r, i)
		}
	}
	return r, nil
}
