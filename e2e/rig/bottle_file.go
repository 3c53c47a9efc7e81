package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// bottleColumns are those of the files that keep what guests counted: a line for each pair of
// nodes, summed over the programs. "least" is the share of local misses of the worst program.
var bottleColumns = []string{"scene", "seed", "left to", "from the first page", "threads", "least", "cpunode",
	"memnode", "loads", "stores", "misses", "near", "far"}

// rows are the lines of what one guest counted under one arm.
func (b bottled) rows() [][]string {
	var r [][]string
	for _, p := range slices.SortedFunc(maps.Keys(b.all),
		func(a, b place) int { return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.mem, b.mem)) }) {
		a := b.all[p]
		row := []string{b.scene, strconv.Itoa(b.seed), b.arm, strconv.FormatBool(b.cold), strconv.Itoa(b.threads),
			strconv.FormatFloat(b.least, 'f', 6, 64), strconv.Itoa(p.cpu), strconv.Itoa(p.mem)}
		for _, n := range []uint64{a.loads, a.stores, a.misses, a.near, a.far} {
			row = append(row, strconv.FormatUint(n, 10))
		}
		r = append(r, row)
	}
	return r
}

// bottleOrigin says where and when a guest counted.
func bottleOrigin(g *guest) string {
	model := "a CPU of unknown make"
	for line := range strings.Lines(readFile("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	load, _, _ := strings.Cut(readFile("/proc/loadavg"), " ")
	return fmt.Sprintf("%s: guest %s, seed %d: %d nodes of %d CPUs and %d MiB, cache of %s; Linux %s; emulated on %d "+
		"CPUs (%s) at load %s",
		time.Now().UTC().Format("2006-01-02 15:04"), g.shape.Name, g.shape.Seed, g.shape.Nodes, g.shape.CPUsPerNode,
		g.shape.NodeMiB, g.shape.Cache, g.tools.kernel, runtime.NumCPU(), model, load)
}

func readFile(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}

func writeBottles(name, origin string, all []bottled) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "# %s\n", origin)
	w := csv.NewWriter(&text)
	w.Write(bottleColumns)
	for _, b := range all {
		w.WriteAll(b.rows())
	}
	w.Flush()
	return os.WriteFile(name, text.Bytes(), 0o644)
}

// readBottles reads such a file, or several of them one after the other. Origins are their comments.
func readBottles(r io.Reader) (all []bottled, origins []string, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	rows, origins, err := keptRows(text, len(bottleColumns))
	if err != nil {
		return nil, nil, err
	}
	for n, row := range rows {
		if slices.Equal(row, bottleColumns) {
			continue
		}
		if all, err = addRow(all, row); err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", n+1, err)
		}
	}
	return all, origins, nil
}

// keptRows returns the rows of kept counts, heads of joined files among them, and their origins: the comments.
func keptRows(text []byte, columns int) (rows [][]string, origins []string, err error) {
	for line := range bytes.Lines(text) {
		if origin, ok := bytes.CutPrefix(line, []byte("# ")); ok {
			origins = append(origins, string(bytes.TrimSpace(origin)))
		}
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment, r.FieldsPerRecord = '#', columns
	rows, err = r.ReadAll()
	return rows, origins, err
}

// addRow adds a line to what it belongs to, which is the last or a new one: a pair of nodes that is
// there already begins the next guest.
func addRow(all []bottled, row []string) ([]bottled, error) {
	b := bottled{scene: row[0], arm: row[2], cold: row[3] == "true", all: map[place]access{}}
	var p place
	var a access
	_,
		err := fmt.Sscan(strings.Join([]string{row[1], row[4], row[5], row[6], row[7], row[8], row[9], row[10], row[11],
		row[12]}, " "),
		&b.seed, &b.threads, &b.least, &p.cpu, &p.mem, &a.loads, &a.stores, &a.misses, &a.near, &a.far)
	if err != nil || (row[3] != "true" && row[3] != "false") {
		return nil, fmt.Errorf("%q: want %s", row, strings.Join(bottleColumns, ","))
	}
	if len(all) > 0 {
		last := all[len(all)-1]
		_, there := last.all[p]
		if last.scene == b.scene && last.arm == b.arm && last.cold == b.cold && last.seed == b.seed && !there {
			last.all[p] = a
			return all, nil
		}
	}
	b.all[p] = a
	return append(all, b), nil
}

func readMachine(name string) (machine, error) {
	f, err := os.Open(name)
	if err != nil {
		return machine{}, err
	}
	defer f.Close()
	m, err := parseMachine(f)
	if err != nil {
		return machine{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// bottlePage makes the page of results out of kept counts, with times modelled for a machine.
func bottlePage(w io.Writer, machineFile string, files []string) error {
	m, err := readMachine(machineFile)
	if err != nil {
		return err
	}
	var all []bottled
	var origins []string
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		more, from, err := readBottles(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, more...)
		origins = append(origins, from...)
	}
	if len(all) == 0 {
		return fmt.Errorf("no counts in %s", strings.Join(files, ", "))
	}
	all, differ := onceASeed(all)
	fmt.Fprint(w, bottleTitle)
	fmt.Fprintf(w, "%s\n", bottleSummary(all).markdown())
	tables := bottleTables(all, m)
	for _, s := range bottleScenes {
		t := tables[s.name]
		if t == nil {
			continue
		}
		fmt.Fprintf(w, "## %s\n\n%s\n\n%s\n", s.title, s.text, t.markdown())
	}
	fmt.Fprintf(w, bottleNote, m.text(), machineFile)
	if differ != nil {
		fmt.Fprintf(w, "- **Not what virtual time promises:** %v.\n", differ)
	}
	fmt.Fprint(w, "\n## Runs\n\n")
	for _, o := range origins {
		fmt.Fprintf(w, "- %s\n", o)
	}
	return nil
}

// text is the machine's matrix in words.
func (m machine) text() string {
	row := func(rows [][]float64) string {
		var all []string
		for _, r := range rows {
			var cells []string
			for _, x := range r {
				cells = append(cells, strconv.FormatFloat(x, 'g', -1, 64))
			}
			all = append(all, strings.Join(cells, " and "))
		}
		return strings.Join(all, "; ")
	}
	s := fmt.Sprintf("latency %s ns; hit %g ns, near %g ns, far %g ns", row(m.latency), m.hit, m.near, m.far)
	if m.bandwidth != nil {
		s += "; bandwidth " + row(m.bandwidth) + " GB/s"
	}
	return s
}

// bottleColumnsInShort are the columns of the table in short, which the README has.
var bottleColumnsInShort = []struct {
	scene string
	cold  bool
	title string
}{
	{"pods", true, "ten pods, from the first page"},
	{"pods", false, "ten pods"},
	{"ten", false, "ten programs"},
	{"six-guests", false, "six guests"},
	{"eight-guests", false, "eight guests"},
	{"database", false, "database and cache"},
	{"wide", false, "wider than a node"},
}

// bottleSummary is the share of misses that local memory serves, by what work is left to and by scene.
func bottleSummary(all []bottled) *table {
	t := &table{rows: [][]string{{"managed by"}, {"*seeds*"}}}
	shares := func(scene, arm string, cold bool) (cells []string) {
		for _, b := range all {
			if b.scene == scene && b.arm == arm && b.cold == cold {
				cells = append(cells, fmt.Sprintf("%.1f", 100*missesShare(b.all)))
			}
		}
		return cells
	}
	for _, arm := range suite.BottleArms {
		t.rows = append(t.rows, []string{arm})
	}
	for _, c := range bottleColumnsInShort {
		var column, seeds []string
		for _, arm := range suite.BottleArms {
			cell := "-"
			if of := shares(c.scene, arm, c.cold); len(of) > 0 {
				cell = middle(of) + " %"
				seeds = append(seeds, strconv.Itoa(len(of)))
			}
			column = append(column, cell)
		}
		if len(seeds) == 0 {
			continue
		}
		least, most := slices.Min(seeds), slices.Max(seeds)
		if least != most {
			most = least + " to " + most
		}
		for i, cell := range append([]string{c.title, most}, column...) {
			t.rows[i] = append(t.rows[i], cell)
		}
	}
	return t
}

// bottleScenes are the headings of the page.
var bottleScenes = []struct{ name, title, text string }{
	{"ten", "Ten programs, for ten pods of 8 CPUs",
		"Two nodes of 6 CPUs; ten processes in cgroups, each with two threads that go over one heap of 32 MiB."},
	{"pods", "Ten real pods",
		"The ten programs in containers of the real containerd and runc: pods that request a CPU each, two threads, " +
			"a heap of 32 MiB. homenode gives each its home by the Node Resource Interface before it starts, and so " +
			"before its first page."},
	{"six-guests", "Six guests",
		"The machine of the ten programs; six processes as QEMU's are: two threads for two vCPUs and 48 MiB each. " +
			"They are no QEMU."},
	{"eight-guests", "Eight guests", "The same, eight of them: more vCPUs than CPUs."},
	{"database", "A database with its cache",
		"Two nodes of 4 CPUs and 768 MiB with systemd; PostgreSQL 17 (64 MiB of shared buffers, pgbench, 200,000 " +
			"rows, reads only) and redis (60,000 keys of 500 bytes, redis-benchmark, reads only) as services, both " +
			"asked at once by four connections. Counted: the memory of its own that each has mapped (shared buffers, " +
			"keys), by all of its processes; not the libraries."},
	{"wide", "A program wider than a node",
		"Four nodes of 4 CPUs and 576 MiB; six threads over 528 MiB, each over its part; its memory starts " +
			"interleaved. Under homenode with threads.sample."},
	{"wide-start", "A program wider than a node, from its start", "" +
		"The same machine and program. Each thread fills its part of the memory, with no policy, and walks over it. " +
		"Under homenode run, a daemon runs too. Both have threads.sample."},
	{"services", "redis, sqlite, memcached and nginx",
		"The machine of the database, with redis (40,000 keys of 500 bytes), sqlite's command line (24 MiB of rows " +
			"in memory that it allocates at once, read at random), memcached (50,000 items of 500 bytes) and nginx " +
			"(two workers that compress a page of 256 KiB anew for each client) as services that ask for one CPU " +
			"each, all asked at once. Counted as there; nginx maps its buffers anew for each request."},
	{"service-pods", "redis, sqlite, memcached and nginx, each in a pod", "" +
		"The same programs and clients on the same machine, in containers of the real containerd and runc: a pod for " +
		"each, which requests one CPU and may have 192 MiB. Under the kubelet's rule the pods are Guaranteed, with " +
		"CPUs of their own. homenode places them by the Node Resource Interface before they start. The clients are " +
		"outside of the pods. The versions are those of Debian forky; the services are of trixie."},
	{"idle", "An idle host",
		"In virtual time: two nodes of 2 CPUs, whose cache has the size of a real one (33 MiB in 11 ways), and the " +
			"scans of the product, every 2 s. One program of one thread over 480 MiB, of which it visits 30 MiB of " +
			"lines: nine tenths of the cache. There is something to gain only where the kernel leaves the thread on " +
			"another node than its memory."},
	{"idle-local", "An idle host, all memory local",
		"The machine and the program of an idle host (a cache of 33 MiB, scans every 2 s, 480 MiB); the program " +
			"starts on node 0 and may run anywhere once its memory is filled, so that its thread and its memory are " +
			"on one node in both arms. There is nothing to gain."},
	{"full", "Work that fills the machine",
		"In virtual time: two nodes of 2 CPUs and a cache of 256 KiB each; one program with a thread for each CPU " +
			"and more memory than a node has; each thread uses all of it. There is nothing to gain."},
	{"interleaved", "Memory that is interleaved on purpose",
		"The same program, which interleaves its memory over both nodes and keeps that policy. There is nothing to " +
			"gain. (A program that would fit a node is brought home whatever its policy: [accesses.md](accesses.md), " +
			"`cache`.)"},
	{"two", "In virtual time",
		"Two nodes of 2 CPUs, whose clock counts instructions; two programs of two threads over 16 MiB each. The " +
			"first seed is run twice."},
}

const bottleTitle = `# The machine in a bottle: misses by the memory that serves them

Written by ` + "`make bottle`" + ` out of [bottle.csv](bottle.csv). What these figures can and cannot show: [docs/proof.md](../../docs/proof.md).

A guest under software emulation; a plugin of the emulator sends every data access of user-space code through a set-associative last-level cache for each node, and counts which
node's memory serves the misses. **No time is measured: what is called *modelled* is the result of the formula below.** Each figure is the median of the seeds, in brackets the least and the most.

## In short

Misses served by local memory, settled where nothing else is said:

`

const bottleNote = `## What the columns are

- *Misses served by local memory*: of the misses of all programs, those that memory on the node of the CPU served. It is what is published for ten pods under ESXi (99.2 %%) and under Linux (43.5 %%)
  by hardware counters on two Xeons. *Worst program*: the same of the program that has least.
- *Settled*: two passes over each heap after the programs ran for a while (NUMA balancing: 40 s with its scan periods shortened; homenode: once all are at home). *From the first page*: from before
  the start of the first program to the end of its first whole pass. Programs that homenode finds running have their first pages where the kernel put them; pods have their home before their first page.
- *numad's rule*, *kubelet's rule*: what these programs decide, carried out by the test (e2e/guest/count/bottle.go); they do not run themselves. *taskset*: threads are pinned as they run, memory
  is left where it is. The kubelet's rule gives each program CPUs of its own before it starts, so that memory is there from the first page; what no longer fits gets the shared pool.
- Modelled time, for a machine of: %s (%s; other files by ` + "`go run ./e2e/rig -machine FILE -bottle bench/results/bottle.csv`" + `):
  time = max(waited / threads, carried); waited = hits × hit + near × near + far × far + Σ misses × latency; carried = the greatest, over pairs of nodes, of misses × 64 bytes / bandwidth.
  Its share per access is shown. No prefetching and no overlap of misses: real programs wait less for each.
- Page walks are not counted: QEMU walks page tables in C and calls no plugin for it. Kernel code, instruction fetches and devices do not go through the cache.
`
