package main

import (
	"os"
	"path/filepath"
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
	write("tag=0 offline=5 strict=5 least=5 most=5\ntag=1 offline=0 strict=1000 least=0 most=0\ntag=2 offline=4000 strict=1000 least=250 most=300\n")
	if _, err := judgeShare(x, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(x.dir, "share-virtual.md"))
	if err != nil || !strings.Contains(string(text), "| nothing done | 6 | 1 | 2 | 3 | 4 | 5 | 6 | 5.29 | 25.0 to 30.0 % |\n") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, bad := range []string{"tag=1 offline=0 strict=1000 least=0 most=0\n", "tag=1 offline=0 strict=0 least=0 most=0\ntag=2 offline=1 strict=1 least=0 most=0\n", "tag=1 rubbish\n"} {
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
