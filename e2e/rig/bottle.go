package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// servedEnough is the share of misses that local memory must serve under homenode, and wideServed
// that of a program wider than a node.
const (
	servedEnough = 0.99
	wideServed   = 0.95
)

// bottled is what one guest counted of one scene under one arm.
type bottled struct {
	scene, arm string
	cold       bool // from the first page on; else when it has settled
	seed       int
	all        map[place]access // of all programs together
	least      float64          // share of misses served locally, of the program that has least
	threads    int              // of all programs
}

// addPlaces is the sum over slots.
func addPlaces(to map[place]access, counted map[place]access, slot int) {
	for p, a := range counted {
		if p.slot == slot {
			to[place{0, p.cpu, p.mem}] = to[place{0, p.cpu, p.mem}].plus(a)
		}
	}
}

// total is the sum of accesses of which f is true.
func total(counted map[place]access, f func(place) bool) (a access) {
	for p, n := range counted {
		if f(p) {
			a = a.plus(n)
		}
	}
	return a
}

func missesShare(counted map[place]access) float64 {
	all := total(counted, everything).misses
	if all == 0 {
		return 0
	}
	return float64(total(counted, local).misses) / float64(all)
}

// judgeServed makes the table's rows of a scene, and holds homenode against its goal.
func judgeServed(scene string, enough float64) func(*tally, counts) (string, error) {
	return func(t *tally, c counts) (string, error) {
		var said []string
		var trouble error
		for _, m := range t.marks {
			if m.scene != scene {
				continue
			}
			b, err := bottledOf(t, c, scene, m)
			if err != nil {
				return "", err
			}
			t.bottles = append(t.bottles, b)
			share := missesShare(b.all)
			name := m.phase
			if b.cold {
				name += " from the first page"
			}
			said = append(said, fmt.Sprintf("%s %s", name, percent(share)))
			// Work that homenode finds running has its first pages where the kernel put them.
			placedFirst := b.arm == "homenode run" || scene == "pods" && b.arm == homenodePhase
			if strings.HasPrefix(b.arm, homenodePhase) && (!b.cold || placedFirst) && share < enough {
				trouble = cmp.Or(trouble, fmt.Errorf("%s: %s of the misses are served by local memory, want %s", name, percent(share), percent(enough)))
			}
		}
		if len(said) == 0 {
			return "", fmt.Errorf("nothing was counted of %s", scene)
		}
		if trouble != nil {
			return "", fmt.Errorf("%w; %s", trouble, strings.Join(said, "; "))
		}
		return "misses served by local memory: " + strings.Join(said, "; "), nil
	}
}

func bottledOf(t *tally, c counts, scene string, m markRecord) (bottled, error) {
	b := bottled{scene: scene, arm: m.phase, cold: m.tag == suite.BottleTag(scene, m.phase, true), seed: t.shape.Seed, all: map[place]access{}, least: 1}
	if c[m.tag] == nil {
		return b, fmt.Errorf("%s: the plugin wrote nothing for its mark", m.phase)
	}
	for _, w := range m.walkers {
		one := map[place]access{}
		addPlaces(one, c[m.tag], w.slot)
		addPlaces(b.all, c[m.tag], w.slot)
		b.threads += w.threads
		a := total(one, everything)
		if want := uint64(w.loads * m.passes); a.loads < want {
			return b, fmt.Errorf("%s: %s made %d loads, %d were counted", m.phase, w.name, want, a.loads)
		}
		if served := a.misses + a.near + a.far; a.misses == 0 || served > a.loads+a.stores {
			return b, fmt.Errorf("%s: %s made %d accesses, of which %d missed", m.phase, w.name, a.loads+a.stores, served)
		}
		b.least = min(b.least, missesShare(one))
	}
	return b, nil
}

func (r *report) bottled(all []bottled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bottles = append(r.bottles, all...)
}

// bottleHead are the columns of the table of each scene.
var bottleHead = []string{"left to", "counted", "misses served by local memory", "worst program", "misses, of accesses", "lines from the other node's cache, of accesses", "*modelled* ns an access", "*modelled* time, of the kernel's alone"}

// perAccess is a figure of so many accesses.
func perAccess(n uint64, a access) float64 {
	return 100 * float64(n) / float64(max(1, a.loads+a.stores))
}

// bottleTables makes a table for each scene: the median of the seeds, and the least and the most.
func bottleTables(all []bottled, m machine) map[string]*table {
	tables := map[string]*table{}
	type row struct {
		scene, arm string
		cold       bool
	}
	rows := map[row][]bottled{}
	for _, b := range all {
		k := row{b.scene, b.arm, b.cold}
		rows[k] = append(rows[k], b)
	}
	nanoseconds := func(b bottled) float64 {
		a := total(b.all, everything)
		return m.pay(b.all).time(b.threads) * float64(b.threads) / float64(max(1, a.loads+a.stores))
	}
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.scene, b.scene), cmp.Compare(coldFirst(a.cold), coldFirst(b.cold)),
			cmp.Compare(slices.Index(suite.BottleArms, a.arm), slices.Index(suite.BottleArms, b.arm)))
	})
	for _, k := range keys {
		bs := rows[k]
		if tables[k.scene] == nil {
			tables[k.scene] = &table{title: "The machine in a bottle, " + k.scene, rows: [][]string{bottleHead}}
		}
		spread := func(format string, f func(bottled) float64) string {
			var cells []string
			for _, b := range bs {
				cells = append(cells, fmt.Sprintf(format, f(b)))
			}
			return middle(cells)
		}
		kernel := map[int]float64{}
		for _, b := range rows[row{k.scene, suite.BottleArms[0], k.cold}] {
			kernel[b.seed] = nanoseconds(b)
		}
		counted := "settled"
		if k.cold {
			counted = "from the first page"
		}
		against := "-"
		if len(kernel) > 0 {
			against = spread("%.2f", func(b bottled) float64 { return nanoseconds(b) / max(1e-9, kernel[b.seed]) })
		}
		tables[k.scene].rows = append(tables[k.scene].rows, []string{
			k.arm, counted,
			spread("%.1f", func(b bottled) float64 { return 100 * missesShare(b.all) }) + " %",
			spread("%.1f", func(b bottled) float64 { return 100 * b.least }) + " %",
			spread("%.1f", func(b bottled) float64 { a := total(b.all, everything); return perAccess(a.misses, a) }) + " %",
			spread("%.2f", func(b bottled) float64 { a := total(b.all, everything); return perAccess(a.far, a) }) + " %",
			spread("%.1f", nanoseconds), against,
		})
	}
	return tables
}

func coldFirst(cold bool) int {
	if cold {
		return 0
	}
	return 1
}

// rawBottles lists what each guest counted, a line for each pair of nodes.
func rawBottles(all []bottled) string {
	var b strings.Builder
	for _, x := range all {
		for _, p := range slices.SortedFunc(maps.Keys(x.all), func(a, b place) int { return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.mem, b.mem)) }) {
			a := x.all[p]
			fmt.Fprintf(&b, "scene=%s seed=%d arm=%q cold=%t cpunode=%d memnode=%d loads=%d stores=%d misses=%d near=%d far=%d\n",
				x.scene, x.seed, x.arm, x.cold, p.cpu, p.mem, a.loads, a.stores, a.misses, a.near, a.far)
		}
	}
	return b.String()
}

// sameBottles finds two guests of one seed that counted different things: in virtual time that
// must not be.
func sameBottles(all []bottled) error {
	first := map[string]string{}
	for _, b := range all {
		key := fmt.Sprint(b.scene, b.arm, b.cold, b.seed)
		text := rawBottles([]bottled{b})
		if first[key] == "" {
			first[key] = text
		}
		if first[key] != text {
			return fmt.Errorf("two guests of seed %d differ:\n%s%s", b.seed, first[key], text)
		}
	}
	return nil
}

// bottle prints the tables and writes them, with what was counted.
func (r *report) bottle(root, out, kernel string) error {
	if len(r.bottles) == 0 {
		return nil
	}
	f, err := os.Open(filepath.Join(root, "e2e", "machines", "xeon-8163.txt"))
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := parseMachine(f)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	var virtual []bottled
	for _, b := range r.bottles {
		if b.scene == "two" {
			virtual = append(virtual, b)
		}
	}
	if err := sameBottles(virtual); err != nil {
		return err
	}
	tables := bottleTables(r.bottles, m)
	for _, scene := range slices.Sorted(maps.Keys(tables)) {
		t := tables[scene]
		fmt.Printf("\n%s\n\n%s", t.title, t.plain())
		text := fmt.Sprintf("## %s\n\nLinux %s, %s.\n\n%s", t.title, kernel, time.Now().UTC().Format("2006-01-02"), t.markdown())
		if err := os.WriteFile(filepath.Join(out, "bottle-"+scene+".md"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "bottle.counts"), []byte(rawBottles(r.bottles)), 0o644)
}
