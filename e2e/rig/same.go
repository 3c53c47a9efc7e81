package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// sameColumns are those of e2e/same/counts.csv. The first three are what a run depends on: where they are the same,
// so are the counts.
var sameColumns = []string{"kernel", "qemu", "go", "pass", "cpunode", "memnode", "loads", "stores", "misses", "near",
	"far"}

// sameInputs is how many of them that is.
const sameInputs = 3

// sameRows are the lines of what a guest counted of the heap, in an order of their own.
func sameRows(inputs []string, c counts) (rows [][]string) {
	for _, pass := range slices.Sorted(maps.Keys(c)) {
		places := slices.DeleteFunc(slices.Collect(maps.Keys(c[pass])), func(p place) bool { return p.slot != 0 })
		slices.SortFunc(places,
			func(a, b place) int { return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.mem, b.mem)) })
		for _, p := range places {
			a := c[pass][p]
			row := append(slices.Clone(inputs), strconv.Itoa(int(pass)), strconv.Itoa(p.cpu), strconv.Itoa(p.mem))
			for _, n := range []uint64{a.loads, a.stores, a.misses, a.near, a.far} {
				row = append(row, strconv.FormatUint(n, 10))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// readSame reads such lines.
func readSame(r io.Reader) ([][]string, error) {
	lines := csv.NewReader(r)
	lines.Comment = '#'
	lines.FieldsPerRecord = len(sameColumns)
	rows, err := lines.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || !slices.Equal(rows[0], sameColumns) {
		return nil, fmt.Errorf("the first line is not %s", strings.Join(sameColumns, ","))
	}
	return rows[1:], nil
}

// compareSame holds counts against those that are stored for the same inputs. Without such a line there is nothing to
// compare with: errSkip.
func compareSame(stored, counted [][]string) (string, error) {
	if len(counted) == 0 {
		return "", errors.New("nothing was counted of the heap")
	}
	inputs := counted[0][:sameInputs]
	stored = slices.DeleteFunc(slices.Clone(stored),
		func(row []string) bool { return !slices.Equal(row[:sameInputs], inputs) })
	if len(stored) == 0 {
		return "",
			fmt.Errorf("%w: e2e/same/counts.csv has no counts of %s; run this test on two machines and add the rows "+
				"of e2e/out/same/same.csv",
				errSkip, strings.Join(inputs, ", "))
	}
	for i := range max(len(stored), len(counted)) {
		want, got := "no further line", "no further line"
		if i < len(stored) {
			want = strings.Join(stored[i][sameInputs:], ",")
		}
		if i < len(counted) {
			got = strings.Join(counted[i][sameInputs:], ",")
		}
		if got != want {
			return "",
				fmt.Errorf("the counts of %s differ from those of e2e/same/counts.csv (%s): counted %s, stored %s",
					strings.Join(inputs, ", "), strings.Join(sameColumns[sameInputs:], ","), got, want)
		}
	}
	return fmt.Sprintf("%d lines of counts are those that are stored, to the last access", len(counted)), nil
}

// judgeSame compares the counts of the guest "same" with those in the tree.
func judgeSame(t *tally, c counts) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	qemu, err := qemuVersion(t.qemu)
	if err != nil {
		return "", err
	}
	counted := sameRows([]string{t.kernel, qemu, runtime.Version()}, c)
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	w.WriteAll(append([][]string{sameColumns}, counted...))
	if err := errors.Join(w.Error(), os.WriteFile(filepath.Join(t.dir, "same.csv"), text.Bytes(), 0o644)); err != nil {
		return "", err
	}
	f, err := os.Open(filepath.Join(root, "e2e", "same", "counts.csv"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	stored, err := readSame(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	return compareSame(stored, counted)
}

// qemuVersion is what QEMU says of itself, such as "10.0.2 (Debian 1:10.0.2+ds-2+deb13u1)".
func qemuVersion(qemu string) (string, error) {
	out, err := exec.Command(qemu, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", qemu, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimPrefix(first, "QEMU emulator version "), nil
}
