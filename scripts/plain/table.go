package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// all is the folder of a row that has the whole of a kind.
const all = "all"

// row has the words of one kind of text in one folder, and how often each pattern occurs.
type row struct {
	kind, folder string
	words        int
	rates        []float64 // per 1,000 words
}

func (r row) key() string {
	return r.kind + " " + r.folder
}

// rows counts texts by kind and folder, sorted, with a row of all folders for each kind.
func rows(texts []text) []row {
	type tally struct {
		words  int
		counts []int
	}
	tallies := map[[2]string]*tally{}
	for _, t := range texts {
		words, matches := count(t.body)
		for _, folder := range []string{all, t.folder()} {
			key := [2]string{t.kind, folder}
			if tallies[key] == nil {
				tallies[key] = &tally{counts: make([]int, len(patterns))}
			}
			tallies[key].words += words
			for i := range patterns {
				tallies[key].counts[i] += len(matches[i])
			}
		}
	}
	var out []row
	for key, t := range tallies {
		if t.words == 0 {
			continue
		}
		r := row{kind: key[0], folder: key[1], words: t.words}
		for _, n := range t.counts {
			r.rates = append(r.rates, rounded(1000*float64(n)/float64(t.words)))
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(a.key(), b.key()) })
	return out
}

// rounded returns a rate with two decimals, rounded up: a table that was written is kept.
func rounded(rate float64) float64 {
	return math.Max(0, math.Ceil(rate*100-1e-9)/100)
}

// head names the columns of the table.
func head() string {
	names := []string{"# kind folder words"}
	for _, p := range patterns {
		names = append(names, strings.ReplaceAll(p.name, " ", "-"))
	}
	return strings.Join(names, " ")
}

func write(w io.Writer, table []row) error {
	_,
		err := fmt.Fprintf(w,
		"# Per 1,000 words. These limits may fall, never rise: go run ./scripts/plain -update lowers them.\n%s\n",
		head())
	for _, r := range table {
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s %s %d", r.kind, r.folder, r.words)
		for _, rate := range r.rates {
			_, _ = fmt.Fprintf(w, " %.2f", rate)
		}
		_, _ = fmt.Fprintln(w)
	}
	return err
}

// parse reads a table as write has written it.
func parse(r io.Reader) ([]row, error) {
	var out []row
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Fields(line)
		if len(cells) != 3+len(patterns) {
			return nil, fmt.Errorf("line %d: %d columns, want %d", number, len(cells), 3+len(patterns))
		}
		words, err := strconv.Atoi(cells[2])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		parsed := row{kind: cells[0], folder: cells[1], words: words}
		for _, cell := range cells[3:] {
			rate, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			parsed.rates = append(parsed.rates, rate)
		}
		out = append(out, parsed)
	}
	return out, lines.Err()
}

// limitOf returns the limits of a folder: its own, or for a new folder those of all text of its kind.
func limitOf(limits []row, r row) (limit row, ok bool) {
	for _, l := range limits {
		if l.kind != r.kind {
			continue
		}
		if l.folder == r.folder {
			return l, true
		}
		if l.folder == all {
			limit = row{rates: l.rates}
			ok = true
		}
	}
	return limit, ok
}

// exceeds reports whether a folder has more of a pattern than its limit. A folder from which good text was removed has
// a higher rate with the same matches: that is no rise.
func exceeds(limit, now row, pattern int) bool {
	matches := now.rates[pattern] * float64(now.words)
	allowed := limit.rates[pattern] * float64(max(limit.words, now.words))
	rounding := 0.01 * float64(now.words)
	higher := now.rates[pattern] > limit.rates[pattern]
	return higher && matches > allowed+rounding
}

// risen returns a line for every rate that is over its limit. The row of all folders is no limit itself: moving text
// from one folder to another must not fail.
func risen(limits, now []row) []string {
	var out []string
	for _, r := range now {
		limit, ok := limitOf(limits, r)
		if !ok || r.folder == all {
			continue
		}
		for i, rate := range r.rates {
			if exceeds(limit, r, i) {
				out = append(out, fmt.Sprintf("%s of %s: %q %.2f times per 1,000 words, limit %.2f (write %s)",
					r.kind, r.folder, patterns[i].name, rate, limit.rates[i], patterns[i].better))
			}
		}
	}
	return out
}

// lowered returns the current rows, each with the lower of its limit and its rate. A folder that shrank keeps its
// number of words while one of its rates is above its limit.
func lowered(limits, now []row) []row {
	out := slices.Clone(now)
	for i, r := range out {
		limit, ok := limitOf(limits, r)
		if !ok {
			continue
		}
		out[i].rates = slices.Clone(r.rates)
		for j, rate := range r.rates {
			if rate > limit.rates[j] {
				out[i].rates[j] = limit.rates[j]
				out[i].words = max(r.words, limit.words)
			}
		}
	}
	return out
}
