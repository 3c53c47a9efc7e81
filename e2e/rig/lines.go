package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// The goals of work that exchanges lines, under homenode of the kernel alone with the same setting of the
// kernel's cache-aware scheduling.
const (
	linesGoal    = 0.5  // lines taken from another cache
	waitGoal     = 1.05 // time on a run queue
	overfullGoal = 1000 // ms in which a cache has more runnable threads than CPUs while another has room
)

// lineRow is what one guest counted and watched of one workload under one arm.
type lineRow struct {
	scene, arm, kind, name string
	seed, tag, slot        int
	threads                int
	ran, waited            uint64 // ns, while watched
	overfull               int    // ms, of the whole machine
	accesses, taken        uint64 // while counted
}

// parseLineRow reads a LINES record: numbers, then names.
func parseLineRow(text string) (x lineRow, err error) {
	f := strings.Split(text, "|")
	if len(f) != 5 {
		return x, fmt.Errorf("%d fields, want 5", len(f))
	}
	if _, err := fmt.Sscan(f[0], &x.tag, &x.slot, &x.threads, &x.ran, &x.waited, &x.overfull); err != nil {
		return x, err
	}
	x.scene = f[1]
	x.arm = f[2]
	x.kind = f[3]
	x.name = f[4]
	return x, nil
}

// judgeLines joins what the guest watched with what the plugin counted, and holds homenode against its goals.
func judgeLines(t *tally, c counts) (string, error) {
	for i := range t.lines {
		x := &t.lines[i]
		a := c.of(uint32(x.tag), x.slot, everything)
		x.seed = t.shape.Seed
		x.accesses = a.loads + a.stores
		x.taken = a.near + a.far
		if x.accesses == 0 {
			return "", fmt.Errorf("%s, %s: no access was counted", x.arm, x.name)
		}
	}
	return linesVerdict(t.lines)
}

// linesVerdict holds rows against the goals.
func linesVerdict(rows []lineRow) (string, error) {
	var said []string
	var missed []error
	for _, aware := range []string{"off", "on"} {
		kernel, homenode := sumLines(rows, "kernel alone, "+aware), sumLines(rows, "homenode, "+aware)
		if kernel.accesses == 0 || homenode.accesses == 0 {
			return "", fmt.Errorf("cache-aware scheduling %s: the kernel alone or homenode was not counted", aware)
		}
		said = append(said,
			fmt.Sprintf("%s: %.1f of 1,000 accesses instead of %.1f, waits %.2f %% instead of %.2f %%, overfull %d "+
				"ms instead of %d ms",
				aware, homenode.lines(), kernel.lines(), homenode.wait(), kernel.wait(), homenode.overfull,
				kernel.overfull))
		if nodes := sumLines(rows, "homenode without caches, "+aware); nodes.accesses > 0 {
			said = append(said, fmt.Sprintf("%s, without caches: %.1f of 1,000, waits %.2f %%", aware, nodes.lines(),
				nodes.wait()))
		}
		if homenode.lines() > linesGoal*kernel.lines() {
			missed = append(missed, fmt.Errorf("%s: lines %.2f of the kernel's, at most %g is wanted", aware,
				homenode.lines()/kernel.lines(), linesGoal))
		}
		if homenode.overfull > overfullGoal {
			missed = append(missed, fmt.Errorf("%s: a cache was overfull for %d ms, at most %d is wanted", aware,
				homenode.overfull, overfullGoal))
		}
		if homenode.wait() > waitGoal*kernel.wait() {
			missed = append(missed, fmt.Errorf("%s: waits %.2f of the kernel's, at most %g is wanted", aware,
				homenode.wait()/kernel.wait(), waitGoal))
		}
	}
	text := strings.Join(said, "; ")
	if len(missed) > 0 {
		return "", fmt.Errorf("%w (%s)", errors.Join(missed...), text)
	}
	return text, nil
}

// sumLines is all rows of an arm together.
func sumLines(rows []lineRow, arm string) (all lineRow) {
	for _, x := range rows {
		if x.arm == arm {
			all.add(x)
		}
	}
	return all
}

func (x *lineRow) add(y lineRow) {
	x.ran += y.ran
	x.waited += y.waited
	x.accesses += y.accesses
	x.taken += y.taken
	x.overfull = max(x.overfull, y.overfull)
}

// lines is the lines taken from another cache, per 1,000 accesses.
func (x lineRow) lines() float64 { return 1000 * float64(x.taken) / float64(max(1, x.accesses)) }

// wait is the time on a run queue, in percent of the time that threads ran or waited.
func (x lineRow) wait() float64 { return 100 * float64(x.waited) / float64(max(1, x.ran+x.waited)) }

var lineColumns = []string{"scene", "seed", "left to", "kind", "workload", "threads", "ran ns", "waited ns",
	"overfull ms", "accesses", "taken"}

// keepLines keeps what a guest counted in its folder.
func (g *guest) keepLines(rows []lineRow) {
	if err := writeLines(filepath.Join(g.dir, "lines.csv"), bottleOrigin(g), rows); err != nil {
		fmt.Println("rig: keep counts:", err)
	}
}

func writeLines(name, origin string, rows []lineRow) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n", origin)
	w := csv.NewWriter(&text)
	w.Write(lineColumns)
	for _, x := range rows {
		w.Write([]string{x.scene, strconv.Itoa(x.seed), x.arm, x.kind, x.name, strconv.Itoa(x.threads),
			strconv.FormatUint(x.ran, 10),
			strconv.FormatUint(x.waited, 10), strconv.Itoa(x.overfull), strconv.FormatUint(x.accesses, 10),
			strconv.FormatUint(x.taken, 10)})
	}
	w.Flush()
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

// readLines reads such files, one after the other. Origins are their comments.
func readLines(files []string) (rows []lineRow, origins []string, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		all, from, err := keptRows(text, len(lineColumns))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		origins = append(origins, from...)
		for _, f := range all {
			if slices.Equal(f, lineColumns) {
				continue
			}
			x := lineRow{scene: f[0], arm: f[2], kind: f[3], name: f[4]}
			numbers := strings.Join([]string{f[1], f[5], f[6], f[7], f[8], f[9], f[10]}, " ")
			if _, err := fmt.Sscan(numbers, &x.seed, &x.threads, &x.ran, &x.waited, &x.overfull, &x.accesses,
				&x.taken); err != nil {
				return nil, nil, fmt.Errorf("%s: %q: %w", name, f, err)
			}
			rows = append(rows, x)
		}
	}
	return rows, origins, nil
}

// linesPage makes the page of results out of kept counts.
func linesPage(w io.Writer, files []string) error {
	rows, origins, err := readLines(files)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("no counts in these files")
	}
	fmt.Fprint(w, linesTitle)
	fmt.Fprintf(w, "%s\n", linesTable(rows).markdown())
	verdict, err := linesVerdict(rows)
	if err != nil {
		verdict = "Goals missed: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	fmt.Fprintf(w, "All seeds and workloads together: %s.\n%s\nCounted:\n\n", verdict, linesNote)
	for _, o := range origins {
		fmt.Fprintf(w, "- %s\n", o)
	}
	return nil
}

// linesTable has a line for each kind of work and arm: the median of the seeds, and the least and the most.
func linesTable(rows []lineRow) *table {
	type key struct{ kind, arm string }
	bySeed := map[key]map[int]*lineRow{}
	var kinds []string
	put := func(kind string, x lineRow) {
		k := key{kind, x.arm}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		if bySeed[k] == nil {
			bySeed[k] = map[int]*lineRow{}
		}
		if bySeed[k][x.seed] == nil {
			bySeed[k][x.seed] = &lineRow{}
		}
		bySeed[k][x.seed].add(x)
	}
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b lineRow) int {
		return cmp.Or(cmp.Compare(slices.Index(suite.LineScenes, a.scene), slices.Index(suite.LineScenes, b.scene)),
			cmp.Compare(a.name, b.name))
	})
	const all = "all"
	for _, x := range sorted {
		put(x.kind, x)
	}
	for _, x := range sorted {
		put(all, x)
	}
	out := &table{title: "Lines taken from another cache",
		rows: [][]string{{"work", "left to, cache-aware scheduling", "seeds",
			"lines from another cache, of 1,000 accesses",
			"run-queue wait, % of run and wait", "longest overfull cache, s"}}}
	for _, kind := range kinds {
		for _, arm := range suite.LineArms {
			seeds := bySeed[key{kind, arm}]
			if len(seeds) == 0 {
				continue
			}
			spread := func(format string, f func(lineRow) float64) string {
				var all []float64
				for _, x := range seeds {
					all = append(all, f(*x))
				}
				slices.Sort(all)
				return fmt.Sprintf(format+" ("+format+" to "+format+")", all[len(all)/2], all[0], all[len(all)-1])
			}
			out.rows = append(out.rows, []string{kind, arm, strconv.Itoa(len(seeds)), spread("%.1f", lineRow.lines),
				spread("%.2f", lineRow.wait),
				spread("%.1f", func(x lineRow) float64 { return float64(x.overfull) / 1000 })})
		}
	}
	return out
}

const linesTitle = `# Caches: lines taken from another cache

Written by ` + "`go run ./e2e/rig -lines bench/results/caches.csv`" + ` out of [caches.csv](caches.csv), which
` + "`go run ./e2e/rig -shape caches-count -seeds 1,2,3,4,5`" + ` counts.

A guest under software emulation: two nodes of 8 CPUs, each with two last-level caches of 4 CPUs. A plugin of the
emulator sends every data access of user-space code through a model of
the four caches, and counts the lines that another cache holds modified. The guest's clock counts instructions (2 ns
each), so that a seed gives the same figures on a busy machine.

`

const linesNote = `
## What the columns are

- *left to*: the kernel alone or Homenode (` + "`caches: place`" + `), each with the kernel's cache-aware scheduling
  (` + "`llc_balancing`" + `) off and on. *Without caches* is Homenode with ` + "`caches: report`" + `: homes on nodes
  alone. *Observes* is a daemon that changes nothing: what it takes of the machine is the difference to the kernel
  alone, and comes last. The seed decides the order of the others, and the order and distance in which work starts.
- *process pairs*: three pairs of processes with one thread each. *A pod*: three processes of one thread. *A guest*: a
  process with two vCPU threads and an emulator thread, and a helper process; no virtual machine runs in it.
  These five run at once, 13 threads on 16 CPUs. *Six services*: two processes and three threads each, 18 threads on
  16 CPUs and four caches.
- All threads of a workload read and write the 1,024 lines that its processes share, for 45 ms of CPU time (services
  40 ms), then sleep for 30 ms (services 60 ms). Nothing wakes them but the clock: the kernel sees no partners.
- *lines*: while counted, for 4 s. *run-queue wait*: of all threads of the work, by ` + "`schedstat`" + `, over 12 s
  in which nothing is counted, once the work has run for 6 s and Homenode has left its CPUs as they are for 15 s (45 s
  at most). All CPUs of the guest take turns on one thread of the
  machine: a thread that wakes on an idle CPU waits for the turn of that CPU, and the daemon takes turns too. *Observes*
  has both.
- *longest overfull cache*: the longest time in these 12 s in which a cache had more runnable threads than CPUs at
  each look (every 0.15 s), while another had fewer; of the whole scene.
`
