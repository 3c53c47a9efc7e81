package main

import (
	"os"
	"strings"
	"testing"
)

// The README's table is that of the counts that are kept.
func TestReadmeHasTheCounts(t *testing.T) {
	f, err := os.Open("../../bench/results/bottle.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, _, err := readBottles(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err = onceASeed(all)
	if err != nil {
		t.Error(err)
	}
	want := bottleSummary(all).markdown()
	for _, name := range []string{"../../README.md", "../../bench/results/bottle.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), want) {
			t.Errorf("%s lacks the table that the counts make:\n%s", name, want)
		}
	}
}
