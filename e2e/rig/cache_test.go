package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// cacheShape is what trace is started with.
type cacheShape struct{ caches, bytes, ways, line int }

// touch is one access.
type touch struct {
	own     int
	store   bool
	address uint64
}

// plainCache is the model that e2e/numacount/cache.h is held against: the same rules, written
// down without sets of arrays, locks or bits.
type plainCache struct {
	cacheShape
	now   int
	lines []map[uint64]*held // of each cache
}

// set is that of a line: the upper half of the product with 2^64 over the golden ratio says.
func (s cacheShape) set(line uint64) uint64 {
	hi := line * 11400714819323198485 >> 32
	return hi % uint64(s.bytes/(s.ways*s.line))
}

type held struct {
	used     int
	modified bool
}

func newPlainCache(s cacheShape) *plainCache {
	p := &plainCache{cacheShape: s}
	p.clear()
	return p
}

func (p *plainCache) clear() {
	p.lines = nil
	for range p.caches {
		p.lines = append(p.lines, map[uint64]*held{})
	}
}

func (p *plainCache) access(a touch) string {
	p.now++
	line := a.address / uint64(p.line)
	mine := p.lines[a.own]
	by := "miss"
	if _, ok := mine[line]; ok {
		by = "hit"
	}
	for c, other := range p.lines {
		h := other[line]
		if c == a.own || h == nil {
			continue
		}
		if h.modified {
			by = fmt.Sprintf("taken %d", c)
		}
		h.modified = false
		if a.store {
			delete(other, line)
		}
	}
	if mine[line] == nil {
		p.makeRoom(mine, line)
		mine[line] = &held{}
	}
	mine[line].used = p.now
	mine[line].modified = mine[line].modified || a.store
	return by
}

// makeRoom takes out the line of the set that was not used for longest, if the set is full.
func (p *plainCache) makeRoom(mine map[uint64]*held, line uint64) {
	oldest, n := uint64(0), 0
	for l, h := range mine {
		if p.set(l) != p.set(line) {
			continue
		}
		if n == 0 || h.used < mine[oldest].used {
			oldest = l
		}
		n++
	}
	if n == p.ways {
		delete(mine, oldest)
	}
}

// traceProgram builds e2e/numacount/trace.c.
func traceProgram(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to build the cache with")
	}
	program := filepath.Join(t.TempDir(), "trace")
	if b, err := exec.Command(gcc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "../numacount/trace.c").CombinedOutput(); err != nil {
		t.Fatalf("build trace.c: %v\n%s", err, b)
	}
	return program
}

// answers is what the C model says to the accesses; a nil access clears the caches.
func answers(t *testing.T, program string, s cacheShape, all []*touch) []string {
	t.Helper()
	var in bytes.Buffer
	for _, a := range all {
		if a == nil {
			in.WriteString("clear\n")
			continue
		}
		kind := "l"
		if a.store {
			kind = "s"
		}
		fmt.Fprintf(&in, "%d %s %x\n", a.own, kind, a.address)
	}
	c := exec.Command(program, strconv.Itoa(s.caches), strconv.Itoa(s.bytes), strconv.Itoa(s.ways), strconv.Itoa(s.line))
	c.Stdin = &in
	out, err := c.Output()
	if err != nil {
		t.Fatalf("trace %v: %v", s, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestCacheByHand holds the answers that a reader can follow: two caches of two sets with two ways.
func TestCacheByHand(t *testing.T) {
	program := traceProgram(t)
	shape := cacheShape{caches: 2, bytes: 256, ways: 2, line: 64}
	// Even numbers are lines of one set, odd ones of the other.
	lines := [2][]uint64{}
	for l := uint64(0); len(lines[0]) < 4 || len(lines[1]) < 4; l++ {
		lines[shape.set(l)] = append(lines[shape.set(l)], l)
	}
	load := func(own, n int) *touch { return &touch{own, false, lines[n%2][n/2] * 64} }
	store := func(own, n int) *touch { return &touch{own, true, lines[n%2][n/2]*64 + 56} }
	for _, c := range []struct {
		name string
		does []*touch
		want string
	}{
		{"one line, two words", []*touch{load(0, 0), store(0, 0), load(0, 0)}, "miss, hit, hit"},
		{"a clean copy elsewhere is no help", []*touch{load(0, 0), load(1, 0), load(0, 0), load(1, 0)}, "miss, miss, hit, hit"},
		{"a written line is handed over, once", []*touch{store(0, 0), load(1, 0), load(1, 0), load(0, 0)}, "miss, taken 0, hit, hit"},
		{"a store takes the line away", []*touch{load(0, 0), load(1, 0), store(1, 0), load(0, 0)}, "miss, miss, hit, taken 1"},
		{"two that write the same line", []*touch{store(0, 0), store(1, 0), store(0, 0)}, "miss, taken 0, taken 1"},
		{"a line read after it was handed over is clean", []*touch{store(0, 0), load(1, 0), store(1, 0), load(0, 0)}, "miss, taken 0, hit, taken 1"},
		{"the least recently used goes", []*touch{load(0, 0), load(0, 2), load(0, 0), load(0, 4), load(0, 0), load(0, 2)}, "miss, miss, hit, miss, hit, miss"},
		{"the other set is not concerned", []*touch{load(0, 0), load(0, 2), load(0, 1), load(0, 3), load(0, 0), load(0, 2)}, "miss, miss, miss, miss, hit, hit"},
		{"a written line that was thrown out is in memory", []*touch{store(0, 0), load(0, 2), load(0, 4), load(1, 0)}, "miss, miss, miss, miss"},
		{"clear", []*touch{store(0, 0), nil, load(1, 0), load(0, 0)}, "miss, miss, miss"},
	} {
		if got := strings.Join(answers(t, program, shape, c.does), ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestCacheAgainstPlainModel plays random accesses: few lines, so that caches share and evict, in
// shapes of one way, of one set and of sets that are no power of two.
func TestCacheAgainstPlainModel(t *testing.T) {
	program := traceProgram(t)
	for seed, s := range []cacheShape{
		{1, 64, 1, 64}, {1, 1 << 12, 4, 64}, {2, 1 << 10, 16, 64}, {2, 3 << 10, 4, 64}, {4, 1 << 13, 8, 64}, {3, 1 << 11, 2, 128}, {8, 1 << 12, 16, 32},
	} {
		r := rand.New(rand.NewPCG(uint64(seed), 27))
		plain := newPlainCache(s)
		span := uint64(s.bytes) * 3
		var all []*touch
		var want []string
		kinds := map[string]int{}
		for range 20000 {
			if r.IntN(5000) == 0 {
				plain.clear()
				all = append(all, nil)
				continue
			}
			a := touch{own: r.IntN(s.caches), store: r.IntN(3) == 0, address: r.Uint64N(span)}
			if r.IntN(2) == 0 { // a part that all use much
				a.address = r.Uint64N(uint64(s.bytes) / 2)
			}
			all = append(all, &a)
			by := plain.access(a)
			want = append(want, by)
			kind, _, _ := strings.Cut(by, " ")
			kinds[kind]++
		}
		if kinds["hit"] < 100 || kinds["miss"] < 100 || s.caches > 1 && kinds["taken"] < 100 {
			t.Errorf("%v: the accesses try too little: %v", s, kinds)
		}
		got := answers(t, program, s, all)
		if len(got) != len(want) {
			t.Errorf("%v: %d answers to %d accesses", s, len(got), len(want))
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%v: access %d is served by %q, want %q", s, i, got[i], want[i])
				break
			}
		}
	}
}

func TestCacheRefusesWhatIsNone(t *testing.T) {
	program := traceProgram(t)
	for _, args := range []string{"0 1024 2 64", "2 1000 2 64", "2 1024 0 64", "2 1024 2 48", "2 0 2 64", "65 1024 2 64", "2 1024 2"} {
		if err := exec.Command(program, strings.Fields(args)...).Run(); err == nil {
			t.Errorf("trace %s: taken for a cache", args)
		}
	}
}
