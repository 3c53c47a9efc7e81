package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/e2e/suite"
)

func TestShareTable(t *testing.T) {
	shape, err := suite.ShapeNamed("virtual")
	if err != nil {
		t.Fatal(err)
	}
	x := newTally(shape, nil)
	x.dir, x.kernel = t.TempDir(), "7.0"
	for _, l := range []string{"1 alone|0|63|63|65|344|346|368|0.00", "2 nothing done|6|1|2|3|4|5|6|5.29"} {
		if err := x.told(suite.Line{Kind: "CASE", Rest: l}); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(x.dir, "overlap"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tag=0 batch=5 strict=5 least=5 most=5\ntag=1 batch=0 strict=1000 least=0 most=0\ntag=2 batch=4000 strict=1000 least=250 most=300\n")
	x.shape.Seed = 7
	if _, err := judgeShare(x, nil); err != nil {
		t.Fatal(err)
	}
	one := x.sharing
	like := func(seed int, cell, text string) *sharing {
		s := &sharing{seed: seed, shape: one.shape, kernel: one.kernel}
		for _, r := range one.rows {
			s.rows = append(s.rows, slices.Clone(r))
		}
		for i, h := range shareHead {
			if h == cell {
				s.rows[1][i] = text
			}
		}
		return s
	}
	const busy = "awake p50, µs"
	r := &report{shared: []*sharing{like(9, busy, "30"), one, like(8, busy, "7"), like(7, "", "")}}
	if err := r.share(x.dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(x.dir, "share-virtual.md"))
	for _, want := range []string{"\n| alone | 0 | 63 | 63 | 65 | 344 | 346 | 368 | 0.00 | 0.0 | 0.0 |  |\n",
		"\n| nothing done | 6 | 7 (1 to 30) | 2 | 3 | 4 | 5 | 6 | 5.29 | 25.0 | 30.0 |  |\n",
		"| 9 | nothing done | 6 | 30 | 2 | 3 | 4 | 5 | 6 | 5.29 | 25.0 | 30.0 |  |\n"} {
		if err != nil || strings.Count(string(text), want) != 1 {
			t.Errorf("%v, not once %q in\n%s", err, want, text)
		}
	}
	for _, bad := range [][]*sharing{{one, like(7, busy, "2")}, {one, {seed: 8, rows: one.rows[:1]}}, {one, {seed: 7, rows: one.rows[:1]}}} {
		if err := (&report{shared: bad}).share(x.dir); err == nil {
			t.Errorf("of %d and %d rows a table is made", len(bad[0].rows), len(bad[1].rows))
		}
	}
	for _, bad := range []string{"tag=1 batch=0 strict=1000 least=0 most=0\n", "tag=1 batch=0 strict=0 least=0 most=0\ntag=2 batch=1 strict=1 least=0 most=0\n", "tag=1 rubbish\n"} {
		write(bad)
		if _, err := judgeShare(x, nil); err == nil {
			t.Errorf("counts %q make a table", bad)
		}
	}
}

// TestVirtualTime: a shape in virtual time is never under KVM, whose clock is this machine's.
func TestVirtualTime(t *testing.T) {
	shape, err := suite.ShapeNamed("virtual")
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Join(qemuArgs(shape, tools{accel: "kvm"}, "image", "dir", "bin", nil), " ")
	for _, want := range []string{"-accel tcg,thread=single", "-icount shift=1,sleep=off", "clock=vm", "-seed 7", "overlap.so,out=dir/overlap", "norandmaps"} {
		if !strings.Contains(args, want) {
			t.Errorf("QEMU is not told %q: %s", want, args)
		}
	}
	shape.Overlap, shape.Instruction = false, 4
	args = strings.Join(qemuArgs(shape, tools{}, "image", "dir", "bin", nil), " ")
	if !strings.Contains(args, "-icount shift=2,") || strings.Contains(args, "overlap") {
		t.Errorf("with 4 ns an instruction and no plugin QEMU is told %s", args)
	}
}

// The median of an even number of figures lies halfway between the two in the middle.
func TestMiddle(t *testing.T) {
	for want, cells := range map[string][]string{
		"7": {"7", "7"}, "2 (1 to 9)": {"9", "1", "2"}, "71.0 (68.5 to 73.6)": {"73.6", "68.5"}, "3 (1 to 10)": {"10", "4", "1", "2"}, "5 (4 to 6)": {"", "6", "5", "", "4"}, "": {"", ""},
	} {
		if got := middle(slices.Clone(cells)); got != want {
			t.Errorf("%q: %s, want %s", cells, got, want)
		}
	}
}

// TestShareApart: the page has the p99 of apart at the use that a case reached, and is made from the raw figures again.
func TestShareApart(t *testing.T) {
	rows := func(goal string) [][]string {
		all := [][]string{
			strings.Split("alone|0|1|1|1|1|1|300|0.00|0.0|0.0", "|"),
			strings.Split("apart, 2 CPUs busy|2|1|1|1|1|1|1000|2.00|0.0|0.0", "|"),
			strings.Split("apart, 4 CPUs busy|4|1|1|1|1|1|2000|4.00|0.0|0.0", "|"),
		}
		return append(all, strings.Split("goal|6|1|1|1|1|1|1900|"+goal+"|0.0|0.5", "|"))
	}
	all := []*sharing{{seed: 1, kernel: "7.3", rows: rows("3.00")}, {seed: 2, kernel: "7.3", rows: rows("1.00")}}
	for cpus, want := range map[float64]float64{0: 300, 1: 650, 3: 1500, 4: 2000, 4.5: -1} {
		if got := all[0].apartAt(cpus); got != want {
			t.Errorf("apart with %v CPUs busy: %v, want %v", cpus, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "share.csv")
	if err := writeShare(file, all); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := sharePage(&page, []string{file}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 1 | goal | 6 | 1 | 1 | 1 | 1 | 1 | 1900 | 3.00 | 0.0 | 0.5 | 1500 |\n",
		"| goal | 6 | 1 | 1 | 1 | 1 | 1 | 1900 | 2.00 (1.00 to 3.00) | 0.0 | 0.5 | 1075 (650 to 1500) |\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
	if err := os.WriteFile(file, []byte("seed,kernel\n1,7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sharePage(&page, []string{file}); err == nil {
		t.Error("a file with few cells makes a page")
	}
}
