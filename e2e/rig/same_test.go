package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// Counts that are stored for the same kernel, QEMU and Go have to be counted again, each of them.
func TestCompareSame(t *testing.T) {
	inputs := []string{"7.3.4", "10.0.2", "go1.26.8"}
	counted := sameRows(inputs, counts{
		1: {place{0, 0, 1}: {loads: 7, stores: 5, misses: 3, near: 0, far: 1}, place{0, 0, 0}: {loads: 9, stores: 8, misses: 2}, place{32, 1, 1}: {loads: 99}},
		2: {place{0, 1, 1}: {loads: 4, stores: 4}},
	})
	var lines []string
	for _, row := range counted {
		lines = append(lines, strings.Join(row, ","))
	}
	all := strings.Join(append([]string{"# a comment", strings.Join(sameColumns, ",")}, lines...), "\n") + "\n"
	want := "7.3.4,10.0.2,go1.26.8,1,0,0,9,8,2,0,0\n7.3.4,10.0.2,go1.26.8,1,0,1,7,5,3,0,1\n7.3.4,10.0.2,go1.26.8,2,1,1,4,4,0,0,0\n"
	if !strings.HasSuffix(all, want) {
		t.Fatalf("rows:\n%s\nwant at their end:\n%s", all, want)
	}
	for _, c := range []struct {
		name, stored, err string
		skip              bool
	}{
		{"the same", all, "", false},
		{"with those of another kernel", all + "6.12,10.0.2,go1.26.8,1,0,0,1,1,1,1,1\n", "", false},
		{"one miss more", strings.Replace(all, "9,8,2,0,0", "9,8,3,0,0", 1), "counted 1,0,0,9,8,2,0,0, stored 1,0,0,9,8,3,0,0", false},
		{"a line more", all + "7.3.4,10.0.2,go1.26.8,3,0,0,1,1,1,1,1\n", "counted no further line, stored 3,0,0,1,1,1,1,1", false},
		{"a line less", strings.TrimSuffix(all, "7.3.4,10.0.2,go1.26.8,2,1,1,4,4,0,0,0\n"), "counted 2,1,1,4,4,0,0,0, stored no further line", false},
		{"of another Go", strings.ReplaceAll(all, "go1.26.8", "go1.25"), "no counts of 7.3.4, 10.0.2, go1.26.8", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored, err := readSame(strings.NewReader(c.stored))
			if err != nil {
				t.Fatal(err)
			}
			_, err = compareSame(stored, counted)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || errors.Is(err, errSkip) != c.skip {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
	if _, err := compareSame(nil, nil); err == nil || errors.Is(err, errSkip) {
		t.Errorf("nothing counted: %v", err)
	}
	if _, err := readSame(strings.NewReader("kernel,qemu\n")); err == nil {
		t.Error("a file without the columns is taken")
	}
}

// The file in the tree can be read, and has what a comparison needs.
func TestStoredSame(t *testing.T) {
	f, err := os.Open("../same/counts.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := readSame(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Error("it has no counts")
	}
}
