package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/homenode/homenode/e2e/suite"
)

// overlap is what the plugin counted in one case, in instructions.
type overlap struct{ offline, strict, least, most uint64 }

// parseOverlap reads the plugin's file, by tag; the newest counts.
func parseOverlap(r io.Reader) (map[uint32]overlap, error) {
	all := map[uint32]overlap{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var tag uint32
		var o overlap
		if _, err := fmt.Sscanf(lines.Text(), "tag=%d offline=%d strict=%d least=%d most=%d", &tag, &o.offline, &o.strict, &o.least, &o.most); err != nil {
			return nil, fmt.Errorf("overlap %q: %w", lines.Text(), err)
		}
		all[tag] = o
	}
	return all, lines.Err()
}

// judgeShare joins what the guest measured with what the plugin counted, and writes the table
// for others to read.
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
	tb := &table{rows: [][]string{{"case", "busy loops", "awake p50, µs", "p90", "p99", "answered p50, µs", "p90", "p99",
		"offline work has, CPUs", "server's instructions beside offline work on its core"}}}
	for _, c := range t.cases {
		o, ok := counted[c.tag]
		if !ok || o.strict == 0 {
			return "", fmt.Errorf("%s: the plugin counted no instruction of online-strict", c.cells[0])
		}
		tb.rows = append(tb.rows, append(c.cells, fmt.Sprintf("%.1f to %.1f %%", 100*float64(o.least)/float64(o.strict), 100*float64(o.most)/float64(o.strict))))
	}
	fmt.Printf("\n%s\n", tb.plain())
	if err := os.WriteFile(filepath.Join(t.dir, "share-virtual.md"), []byte(shareTitle+tb.markdown()+shareNote(t.shape, t.kernel)), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d cases", len(t.cases)), nil
}

const shareTitle = "# What sharing gives, in virtual time\n\nWritten by `make bench-share-virtual`.\n\n"

// shareNote says what the numbers are and are not.
func shareNote(s suite.Shape, kernel string) string {
	return fmt.Sprintf(`
A clock asks a small server for a piece of work every 4 ms, whatever it answers: 1,000 times, in four rounds with a new server. *Awake* is how late
the clock was awake, *answered* how late an answer was, both from when a request was due. Busy loops are the offline work.

- A guest of %[1]d CPUs (%[2]d cores of two threads, one node), Linux %[3]s, under QEMU with -icount: its clock counts instructions, 2 ns each. How slow the machine is
  is not in the table; when its interrupts come is, so that two runs are alike, not the same. Of two of one commit, the server's work beside offline work was 18.2 to 21.6 %% with homenode share and 0.0 to 1.0 %%
  with sched_ext; the p99 of its answers 2.4 and 3.8 ms, and 8.9 and 2.2 ms.
- All CPUs of the guest take turns on one thread: each of k busy CPUs has 1/k of the speed. So compare cases in which offline work has as many. *Apart* is what no manager can better:
  the server has a core of its own, and so many busy loops have a CPU each.
- The last column is counted by a plugin of QEMU, in instructions (e2e/overlap): how much of the server's work ran while the SMT sibling ran offline work. All CPUs have their turn within 200 µs: at most,
  it is what ran within 200 µs after offline work there; at least, that of which offline work then went on. Between the two is offline work that leaves, as it does when it is expelled.
  What it costs is not in the times: an emulator's siblings share nothing.

It is not a measurement of hardware: no SMT, cache or memory contention, no frequency, no real interrupts. Of those, bench/results/share.md has a table.
`, s.CPUs(), s.CPUs()/2, kernel)
}
