package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
		bottles, err := bottlesOf(t, c, scene)
		if err != nil {
			return "", err
		}
		for _, b := range bottles {
			share := missesShare(b.all)
			name := b.arm
			if b.cold {
				name += " from the first page"
			}
			said = append(said, fmt.Sprintf("%s %s", name, percent(share)))
			// Work that homenode finds running has its first pages where the kernel put them.
			// So have the threads of wide work, which get their nodes at the first scan that sees them.
			atStart := b.arm == "homenode run" && scene != "wide-start"
			placedFirst := atStart || (scene == "pods" && b.arm == homenodePhase)
			judged := strings.HasPrefix(b.arm, homenodePhase) && (!b.cold || placedFirst)
			if judged && share < enough {
				trouble = cmp.Or(trouble, fmt.Errorf("%s: %s of the misses are served by local memory, want %s", name,
					percent(share), percent(enough)))
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

// harmless is what modelled time may be under homenode, of that under the kernel alone, where there is
// nothing to gain.
const harmless = 1.02

// judgeHarmless makes the rows of a scene in which homenode has nothing to gain, and asks that it does
// no harm.
func judgeHarmless(scene string) func(*tally, counts) (string, error) {
	return func(t *tally, c counts) (string, error) {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		m, err := readMachine(filepath.Join(root, "e2e", "machines", "xeon-8163.txt"))
		if err != nil {
			return "", err
		}
		bottles, err := bottlesOf(t, c, scene)
		if err != nil {
			return "", err
		}
		times := map[string]map[bool]float64{}
		for _, b := range bottles {
			if times[b.arm] == nil {
				times[b.arm] = map[bool]float64{}
			}
			times[b.arm][b.cold] = b.nanoseconds(m)
			if share := missesShare(b.all); scene == "idle-local" && share < servedEnough {
				return "",
					fmt.Errorf("%s: local memory serves %s of the misses; this scene starts with all memory local",
						b.arm, percent(share))
			}
		}
		var said []string
		var trouble error
		for _, cold := range []bool{true, false} {
			when := "settled"
			if cold {
				when = "from the first page"
			}
			kernel, homenode := times[suite.BottleArms[0]][cold], times[homenodePhase][cold]
			if kernel == 0 || homenode == 0 {
				return "", fmt.Errorf("%s: nothing was counted under the kernel alone, or under homenode", when)
			}
			said = append(said, fmt.Sprintf("%s %.3f", when, homenode/kernel))
			if homenode > harmless*kernel {
				trouble = cmp.Or(trouble,
					fmt.Errorf("%s: homenode takes %.3f of the kernel's modelled time, at most %g is allowed", when,
						homenode/kernel, harmless))
			}
		}
		if trouble != nil {
			return "", trouble
		}
		return "modelled time under homenode, of the kernel's alone: " + strings.Join(said, ", "), nil
	}
}

// nanoseconds is the modelled time of an access.
func (b bottled) nanoseconds(m machine) float64 {
	a := total(b.all, everything)
	return m.pay(b.all).time(b.threads) * float64(b.threads) / float64(max(1, a.loads+a.stores))
}

// bottlesOf returns the rows of a scene, and keeps them for the table.
func bottlesOf(t *tally, c counts, scene string) (out []bottled, err error) {
	for _, m := range t.marks {
		if m.scene != scene {
			continue
		}
		b, err := bottledOf(t, c, scene, m)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	t.bottles = append(t.bottles, out...)
	return out, nil
}

func bottledOf(t *tally, c counts, scene string, m markRecord) (bottled, error) {
	b := bottled{scene: scene, arm: m.phase, cold: m.tag == suite.BottleTag(scene, m.phase, true), seed: t.shape.Seed,
		all: map[place]access{}, least: 1}
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
			return b, fmt.Errorf("%s: %s made %d accesses, of which %d missed", m.phase, w.name, a.loads+a.stores,
				served)
		}
		b.least = min(b.least, missesShare(one))
	}
	return b, nil
}

// bottled takes what a guest counted, and keeps it in the guest's folder.
func (r *report) bottled(g *guest, all []bottled) {
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bottles = append(r.bottles, all...)
	if err := writeBottles(filepath.Join(g.dir, "bottle.csv"), bottleOrigin(g), all); err != nil {
		fmt.Println("rig: keep counts:", err)
	}
}

// bottleHead are the columns of the table of each scene.
var bottleHead = []string{"managed by", "counted", "seeds", "misses served by local memory", "worst program",
	"misses, of accesses", "lines from the other node's cache, of accesses", "*modelled* ns an access",
	"*modelled* time, of the kernel's alone"}

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
	nanoseconds := func(b bottled) float64 { return b.nanoseconds(m) }
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
		if r := ratios(bs, kernel, nanoseconds); len(r) > 0 {
			against = middle(r)
		}
		tables[k.scene].rows = append(tables[k.scene].rows, []string{
			k.arm, counted, strconv.Itoa(len(bs)),
			spread("%.1f", func(b bottled) float64 { return 100 * missesShare(b.all) }) + " %",
			spread("%.1f", func(b bottled) float64 { return 100 * b.least }) + " %",
			spread("%.1f", func(b bottled) float64 { a := total(b.all, everything); return perAccess(a.misses, a) }) +
				" %",
			spread("%.2f", func(b bottled) float64 { a := total(b.all, everything); return perAccess(a.far, a) }) +
				" %",
			spread("%.1f", nanoseconds), against,
		})
	}
	return tables
}

// ratios are the times of guests over that of the kernel alone with the same seed, where there is one.
func ratios(bs []bottled, kernel map[int]float64, time func(bottled) float64) []string {
	var r []string
	for _, b := range bs {
		if of := kernel[b.seed]; of > 0 {
			r = append(r, fmt.Sprintf("%.2f", time(b)/of))
		}
	}
	return r
}

func coldFirst(cold bool) int {
	if cold {
		return 0
	}
	return 1
}

// onceASeed leaves one guest of each seed. In virtual time it is an error if they differ; elsewhere
// the last counts.
func onceASeed(all []bottled) ([]bottled, error) {
	type key struct {
		scene, arm string
		cold       bool
		seed       int
	}
	at := map[key]int{}
	var once []bottled
	same, differ := 0, 0
	for _, b := range all {
		k := key{b.scene, b.arm, b.cold, b.seed}
		i, twice := at[k]
		if !twice {
			at[k] = len(once)
			once = append(once, b)
			continue
		}
		switch {
		case !suite.BottleVirtual(b.scene):
		case slices.EqualFunc(once[i].rows(), b.rows(), slices.Equal):
			same++
		default:
			differ++
		}
		once[i] = b
	}
	if differ > 0 {
		return once, fmt.Errorf("guests of one seed, in virtual time, counted the same in %d of %d cases", same,
			same+differ)
	}
	return once, nil
}

// bottle prints the tables of what the guests of this run counted.
func (r *report) bottle(root string) error {
	if len(r.bottles) == 0 {
		return nil
	}
	m, err := readMachine(filepath.Join(root, "e2e", "machines", "xeon-8163.txt"))
	if err != nil {
		return err
	}
	all, err := onceASeed(r.bottles)
	if err != nil {
		return err
	}
	tables := bottleTables(all, m)
	for _, scene := range slices.Sorted(maps.Keys(tables)) {
		fmt.Printf("\n%s\n\n%s", tables[scene].title, tables[scene].plain())
	}
	return nil
}
