package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// overlap is what the plugin counted in one case, in instructions.
type overlap struct{ batch, strict, least, most uint64 }

// parseOverlap reads the plugin's file, by tag; the newest counts.
func parseOverlap(r io.Reader) (map[uint32]overlap, error) {
	all := map[uint32]overlap{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var tag uint32
		var o overlap
		if _, err := fmt.Sscanf(lines.Text(), "tag=%d batch=%d strict=%d least=%d most=%d", &tag, &o.batch, &o.strict,
			&o.least, &o.most); err != nil {
			return nil, fmt.Errorf("overlap %q: %w", lines.Text(), err)
		}
		all[tag] = o
	}
	return all, lines.Err()
}

// sharing is what one guest measured, a row for each case.
type sharing struct {
	seed   int
	shape  suite.Shape
	kernel string
	rows   [][]string
}

var shareHead = []string{"case", "busy loops", "awake p50, µs", "p90", "p99", "answered p50, µs", "p90", "p99",
	"batch work has, CPUs", "at least beside it, %", "at most"}

// judgeShare joins what the guest measured with what the plugin counted.
func judgeShare(t *tally, _ counts) (string, error) {
	f, err := os.Open(filepath.Join(t.dir, "overlap"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	counted, err := parseOverlap(f)
	if err != nil {
		return "", err
	}
	if len(t.cases) == 0 {
		return "", fmt.Errorf("the guest told no case")
	}
	var rows [][]string
	for _, c := range t.cases {
		o, ok := counted[c.tag]
		if !ok || o.strict == 0 {
			return "", fmt.Errorf("%s: the plugin counted no instruction of online-strict", c.cells[0])
		}
		row := append(slices.Clone(c.cells), fmt.Sprintf("%.1f", 100*float64(o.least)/float64(o.strict)),
			fmt.Sprintf("%.1f", 100*float64(o.most)/float64(o.strict)))
		if len(row) != len(shareHead) {
			return "", fmt.Errorf("%s: %d cells, want %d", c.cells[0], len(row), len(shareHead))
		}
		rows = append(rows, row)
	}
	t.sharing = &sharing{seed: t.shape.Seed, shape: t.shape, kernel: t.kernel, rows: rows}
	return fmt.Sprintf("%d cases", len(rows)), nil
}

// shareTables are the medians of all seeds, and what each seed gave. Two guests of one seed have to
// tell the same.
func shareTables(all []*sharing) (median, each *table, err error) {
	slices.SortStableFunc(all, func(a, b *sharing) int { return cmp.Compare(a.seed, b.seed) })
	head := append(slices.Clone(shareHead), "apart at as many, answered p99, µs")
	median, each = &table{rows: [][]string{head}}, &table{rows: [][]string{append([]string{"seed"}, head...)}}
	var seeds []*sharing
	for i, s := range all {
		if i > 0 && all[i-1].seed == s.seed {
			if !slices.EqualFunc(s.rows, all[i-1].rows, slices.Equal) {
				return nil, nil, fmt.Errorf("two guests of seed %d differ: %v and %v", s.seed, s.rows, all[i-1].rows)
			}
			continue
		}
		seeds = append(seeds, s)
		for _, r := range s.rows {
			each.rows = append(each.rows, append([]string{strconv.Itoa(s.seed)}, s.withApart(r)...))
		}
	}
	for k, first := range seeds[0].rows {
		row := slices.Clone(first[:2])
		for c := 2; c < len(head); c++ {
			var cells []string
			for _, s := range seeds {
				if k >= len(s.rows) || s.rows[k][0] != first[0] {
					return nil, nil, fmt.Errorf("seed %d lacks the case %q", s.seed, first[0])
				}
				cells = append(cells, s.withApart(s.rows[k])[c])
			}
			row = append(row, middle(cells))
		}
		median.rows = append(median.rows, row)
	}
	return median, each, nil
}

// middle is the median of numbers, and where they differ the least and the most. Empty cells are left out.
func middle(cells []string) string {
	cells = slices.DeleteFunc(slices.Clone(cells), func(s string) bool { return s == "" })
	if len(cells) == 0 {
		return ""
	}
	number := func(s string) float64 {
		x, _ := strconv.ParseFloat(s, 64)
		return x
	}
	slices.SortFunc(cells, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	least, most := cells[0], cells[len(cells)-1]
	if least == most {
		return least
	}
	below, above := cells[(len(cells)-1)/2], cells[len(cells)/2]
	median := below
	if below != above { // an even number of them: halfway, with as many decimals
		_, decimals, _ := strings.Cut(below, ".")
		median = strconv.FormatFloat((number(below)+number(above))/2, 'f', len(decimals), 64)
	}
	return fmt.Sprintf("%s (%s to %s)", median, least, most)
}

// share writes the raw figures, and the tables for others to read.
func (r *report) share(out string) error {
	if len(r.shared) == 0 {
		return nil
	}
	if err := writeShare(filepath.Join(out, "share-virtual.csv"), r.shared); err != nil {
		return err
	}
	text, err := shareText(r.shared)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "share-virtual.md"), []byte(text), 0o644)
}

// shareText makes the page of some guests' figures.
func shareText(all []*sharing) (string, error) {
	median, each, err := shareTables(all)
	if err != nil {
		return "", err
	}
	s := all[0]
	return shareTitle + median.markdown() + shareNote(s.shape, s.kernel) + "\n## By seed\n\n" + each.markdown(), nil
}

// writeShare writes a line for each case of each guest: seed, kernel and the cells of the table.
func writeShare(path string, all []*sharing) error {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	w.Write(append([]string{"seed", "kernel"}, shareHead...))
	for _, s := range all {
		for _, row := range s.rows {
			w.Write(append([]string{strconv.Itoa(s.seed), s.kernel}, row...))
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// readShare reads files of writeShare. A guest begins where the seed changes, or the first case comes again.
func readShare(files []string) (all []*sharing, err error) {
	shape, err := suite.ShapeNamed("virtual")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var now *sharing
		for i, cells := range lines {
			if len(cells) != len(shareHead)+2 {
				return nil, fmt.Errorf("%s, line %d: %d cells, want %d", file, i+1, len(cells), len(shareHead)+2)
			}
			if i == 0 {
				continue
			}
			seed, err := strconv.Atoi(cells[0])
			if err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", file, i+1, err)
			}
			if now == nil || now.seed != seed || now.rows[0][0] == cells[2] {
				now = &sharing{seed: seed, shape: shape, kernel: cells[1]}
				all = append(all, now)
			}
			now.rows = append(now.rows, cells[2:])
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no guest in %s", strings.Join(files, ", "))
	}
	return all, nil
}

// sharePage writes the page of files of writeShare.
func sharePage(w io.Writer, files []string) error {
	all, err := readShare(files)
	if err != nil {
		return err
	}
	text, err := shareText(all)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

const (
	shareP99  = 7 // columns of shareHead
	shareCPUs = 8
)

// apartAt returns the p99 of an answer, in µs, with so many CPUs busy with batch work apart: on straight lines between
// the cases with none, two and four. It is negative without those cases, or with more CPUs.
func (s *sharing) apartAt(cpus float64) float64 {
	var x, y []float64
	for _, r := range s.rows {
		if r[0] == "alone" || strings.HasPrefix(r[0], "apart, ") {
			k, err := strconv.ParseFloat(r[shareCPUs], 64)
			p99, bad := strconv.ParseFloat(r[shareP99], 64)
			if err != nil || bad != nil {
				return -1
			}
			x, y = append(x, k), append(y, p99)
		}
	}
	for i := 1; i < len(x); i++ {
		if cpus >= x[i-1] && cpus <= x[i] && x[i] > x[i-1] {
			return y[i-1] + (y[i]-y[i-1])*(cpus-x[i-1])/(x[i]-x[i-1])
		}
	}
	return -1
}

// withApart returns a row with the p99 of apartAt as one cell more.
func (s *sharing) withApart(row []string) []string {
	cpus, err := strconv.ParseFloat(row[shareCPUs], 64)
	cell := ""
	if at := s.apartAt(cpus); err == nil && at >= 0 {
		cell = strconv.FormatFloat(at, 'f', 0, 64)
	}
	return append(slices.Clone(row), cell)
}

const shareTitle = "# What sharing gives, in virtual time\n\nWritten by `make bench-share-virtual`.\n\n"

// shareNote says what the numbers are and are not.
func shareNote(s suite.Shape, kernel string) string {
	return fmt.Sprintf(`
A clock asks a small server for a piece of work every 4 ms, whatever it answers: 1,000 times, in four rounds, each with a new server that has answered 25 before (with a target of 75 %% 4,000 in one round, after 12 s, so that the budget has settled; with a goal 4,000 in one round, after 90 s). *Awake* is how late
the clock was awake, *answered* how late an answer was, both from when a request was due. Busy loops are the batch work. Medians of the seeds, in brackets the least and the most.

- A guest of %[1]d CPUs (%[2]d cores of two threads, one node), Linux %[3]s, under QEMU with -icount: its clock counts instructions, 2 ns each. How slow or busy the machine is
  is not in the table, nor anything else of it: the same build with the same kernel, QEMU and seed gives the same figures. The first seed was run twice, and the run fails where the two differ.
  Another seed is another order of events, as is any other build: what differs from seed to seed is chance.
- All CPUs of the guest take turns on one thread: each of k busy CPUs has 1/k of the speed. So compare cases in which batch work has as many. *Apart* is what no manager can better:
  the server has a core of its own, and so many busy loops have a CPU each.
- With a *goal* no target is set: the rule of the server has a latency goal (slo), its p99 over the newest 1,000
  answers. The limit is 1.15 times the p99 of *apart, 4 CPUs busy* in the same guest.
- *Apart at as many* is the p99 of *apart* with as many CPUs busy: on straight lines between none, two and four.
- *Beside it* is counted by a plugin of QEMU, in instructions (e2e/overlap): how much of the server's work ran while the SMT sibling ran batch work. All CPUs have their turn within 200 µs: at most,
  it is what ran within 200 µs after batch work there; at least, that of which batch work then went on. Between the two is batch work that leaves, as it does when it is expelled.
  What it costs is not in the times: an emulator's siblings share nothing.

It is not a measurement of hardware: no SMT, cache or memory contention, no frequency, no real interrupts. Of those, bench/results/share.md has a table.
`, s.CPUs(), s.CPUs()/2, kernel)
}
