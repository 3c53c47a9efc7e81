package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// place is who accessed what: a walker from a CPU's node to a memory's node.
type place struct{ slot, cpu, mem int }

// access is how often, and where caches are counted, what served it: misses are served by the
// memory of the place, near and far by a cache of the CPU's node and of another.
type access struct {
	loads, stores     uint64
	misses, near, far uint64
}

// counts is the plugin's file: tag, then place.
type counts map[uint32]map[place]access

// parseCounts reads the plugin's file. A tag counts only when its end is there.
func parseCounts(r io.Reader) (counts, error) {
	c, open := counts{}, map[uint32]map[place]access{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var tag uint32
		s := lines.Text()
		if n, _ := fmt.Sscanf(s, "tag=%d end", &tag); n == 1 && strings.HasSuffix(s, " end") {
			c[tag] = open[tag]
			delete(open, tag)
			continue
		}
		var p place
		var a access
		if _, err := fmt.Sscanf(s, "tag=%d slot=%d cpunode=%d memnode=%d loads=%d stores=%d", &tag, &p.slot, &p.cpu,
			&p.mem, &a.loads, &a.stores); err != nil {
			return nil, fmt.Errorf("counts %q: %w", s, err)
		}
		if _, served, ok := strings.Cut(s, " misses="); ok {
			if _, err := fmt.Sscanf(served, "%d near=%d far=%d", &a.misses, &a.near, &a.far); err != nil {
				return nil, fmt.Errorf("counts %q: %w", s, err)
			}
		}
		if open[tag] == nil {
			open[tag] = map[place]access{}
		}
		open[tag][p] = a
	}
	return c, lines.Err()
}

// of sums a walker's accesses in a phase that satisfy f.
func (c counts) of(tag uint32, slot int, f func(place) bool) (a access) {
	for p, n := range c[tag] {
		if p.slot == slot && f(p) {
			a = a.plus(n)
		}
	}
	return a
}

func everything(place) bool { return true }
func local(p place) bool    { return p.cpu == p.mem }

// home accepts accesses that start and end on a walker's home nodes.
func home(nodes []int) func(place) bool {
	return func(p place) bool { return slices.Contains(nodes, p.cpu) && slices.Contains(nodes, p.mem) }
}

func part(a, of access) float64 {
	if of.loads+of.stores == 0 {
		return 0
	}
	return float64(a.loads+a.stores) / float64(of.loads+of.stores)
}

// judge runs the tests that are the host's.
func (g *guest) judge(t *tally) {
	var c counts
	var trouble error
	if f, err := os.Open(filepath.Join(g.dir, "counts")); err != nil {
		trouble = err
	} else {
		c, trouble = parseCounts(f)
		f.Close()
	}
	for _, e := range t.expected {
		if !e.OnHost {
			continue
		}
		if _, done := t.results[e.Name]; done {
			continue
		}
		res := suite.Result{Name: e.Name, Outcome: suite.Fail}
		switch after := t.results[e.After]; {
		case after.Outcome != suite.OK:
			res.Text = fmt.Sprintf("%s did not pass", e.After)
			if g.shape.Cache.KiB > 0 && trouble == nil {
				judges[e.Name](t, c) // what was counted until then is kept
			}
		case g.shape.Count && trouble != nil:
			res.Text = trouble.Error()
		default:
			text, err := judges[e.Name](t, c)
			if res.Outcome, res.Text = suite.OK, text; errors.Is(err, errSkip) {
				res.Outcome, res.Text = suite.Skip, err.Error()
			} else if err != nil {
				res.Outcome, res.Text = suite.Fail, err.Error()
			}
		}
		g.report.add(g.work, t.take(res))
	}
	if t.sharing != nil {
		g.report.sharing(t.sharing)
	}
	g.report.bottled(g, t.bottles)
	if len(t.lines) > 0 {
		g.keepLines(t.lines)
		return
	}
	if len(c) > 0 && len(t.bottles) == 0 && len(t.walkers) > 0 {
		counted := localityTable(t, c)
		counted.whole = !slices.ContainsFunc(t.expected,
			func(e suite.Test) bool { return e.OnHost && t.results[e.Name].Outcome != suite.OK })
		g.report.counted(g.shape, counted)
	}
}

// judges holds the code of the tests with OnHost set.
var judges = map[string]func(*tally, counts) (string, error){
	"count.exact": judgeExact,
	"count.local": judgeLocal,

	"homenode.gpus-local":   judgeGPUs,
	"containers.gpus-local": judgeGPUs,
	"count.wide-local":      judgeWide,
	"libvirt.local":         judgeCells,
	"containers.exact":      judgeExact,
	"containers.local":      judgeLocal,
	"homenode.alert":        judgeAlert,
	"share.table":           judgeShare,
	"share.goal-table":      judgeShare,

	"same.stored":          judgeSame,
	"caches.lines-counted": judgeLines,

	"bottle.ten-served":          judgeServed("ten", servedEnough),
	"bottle.six-guests-served":   judgeServed("six-guests", servedEnough),
	"bottle.eight-guests-served": judgeServed("eight-guests", servedEnough),
	"bottle.idle-served":         judgeHarmless("idle"),
	"bottle.idle-local-served":   judgeHarmless("idle-local"),
	"bottle.full-served":         judgeHarmless("full"),
	"bottle.interleaved-served":  judgeHarmless("interleaved"),
	"bottle.two-served":          judgeServed("two", servedEnough),
	"bottle.database-served":     judgeServed("database", servedEnough),
	"bottle.services-served":     judgeServed("services", servedEnough),
	"bottle.service-pods-served": judgeServed("service-pods", servedEnough),
	"bottle.pods-served":         judgeServed("pods", servedEnough),
	"bottle.wide-served":         judgeServed("wide", wideServed),
	"bottle.wide-start-served":   judgeServed("wide-start", wideServed),
}

// judgeExact: in every phase every walker made exactly the loads and stores that
// it was told to make. It guards everything else the counts are used for.
func judgeExact(t *tally, c counts) (string, error) {
	if len(t.marks) == 0 || len(t.walkers) == 0 {
		return "", fmt.Errorf("no marks or no walkers were reported")
	}
	var all uint64
	for _, m := range t.marks {
		if c[m.tag] == nil {
			return "", fmt.Errorf("phase %q: the plugin wrote nothing for its mark", m.phase)
		}
		for _, w := range t.walkers {
			want := uint64(w.loads * m.passes)
			got := c.of(m.tag, w.slot, everything)
			// An access that a signal or a fault interrupts can be started twice.
			if slack := want / 10000; got.loads < want || got.loads > want+slack || got.stores < want ||
				got.stores > want+slack {
				return "", fmt.Errorf("phase %q, walker %s: %d loads and %d stores counted, it made %d of each",
					m.phase, w.name, got.loads, got.stores, want)
			}
			if lost := c.of(m.tag, w.slot, func(p place) bool { return p.mem < 0 }); lost.loads+lost.stores > 0 {
				return "", fmt.Errorf("phase %q, walker %s: %d accesses outside every node's memory", m.phase, w.name,
					lost.loads+lost.stores)
			}
			all += got.loads + got.stores
		}
	}
	return fmt.Sprintf("%d accesses counted, exactly as many as made", all), nil
}
