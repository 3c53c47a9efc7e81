package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// report prints results as they come and tables at the end.
type report struct {
	mu                      sync.Mutex // guests that run beside each other report
	verbose                 bool
	suffix                  string // of the guests' folders
	passed, failed, skipped int
	ok, failures            []testOf
	secondTime              []string      // tests that failed and passed when run again
	spent                   time.Duration // CPU time of all guests
	printed                 []*table
	locality                []*table // by the shape, also written as Markdown
	shared                  []*sharing
	bottles                 []bottled
}

// testOf is a test of a guest. How the guest ended is its test "guest".
type testOf struct{ guest, test string }

// table has its head as first row.
type table struct {
	title string
	rows  [][]string
	whole bool // nothing is missing: fit to be shown to others
	shape suite.Shape
}

// counted takes the table of a guest that counts, in the place of an earlier one.
func (r *report) counted(s suite.Shape, t *table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.shape = s
	r.locality = append(slices.DeleteFunc(r.locality, func(t *table) bool { return t.shape.Name == s.Name }), t)
}

func (r *report) sharing(s *sharing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shared = append(r.shared, s)
}

func (r *report) add(w work, res suite.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch res.Outcome {
	case suite.OK:
		r.passed++
		r.ok = append(r.ok, testOf{w.name, res.Name})
	case suite.Skip:
		r.skipped++
	default:
		r.failed++
		r.failures = append(r.failures, testOf{w.name, res.Name})
	}
	fmt.Printf("%-4s  %-9s %-24s %6.1f s  %s\n", res.Outcome, w.shape.Name, res.Name, res.Took.Seconds(), res.Text)
}

// failedTests picks the failed tests from the work that was done, and with a judge the
// test that it judges.
func (r *report) failedTests(done []work) []work {
	var again []work
	for _, w := range done {
		failed := func(test string) bool { return slices.Contains(r.failures, testOf{w.name, test}) }
		tests := slices.DeleteFunc(slices.Clone(w.tests), func(t suite.Test) bool {
			judged := slices.ContainsFunc(w.tests, func(j suite.Test) bool {
				return j.OnHost && j.After == t.Name &&
					failed(j.Name)
			})
			return !failed(t.Name) && !judged && !(t.OnHost && failed(t.After))
		})
		if len(tests) > 0 {
			w.tests = tests
			again = append(again, w)
		}
	}
	return again
}

// merge takes the results of the second run. What passed there counts as passed, and is
// named: what was skipped did not, nor did a guest in which something failed again.
func (r *report) merge(second *report) {
	r.spent += second.spent
	r.shared = append(r.shared, second.shared...)
	r.bottles = append(r.bottles, second.bottles...)
	for _, t := range second.locality {
		r.counted(t.shape, t)
	}
	for _, f := range r.failures {
		again := slices.ContainsFunc(second.failures,
			func(x testOf) bool { return x == f || (f.test == "guest" && x.guest == f.guest) })
		if slices.Contains(second.ok, f) && !again {
			r.failed--
			r.passed++
			r.secondTime = append(r.secondTime, f.test)
		}
	}
}

func (r *report) spend(cpu time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent += cpu
}

func (r *report) log(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verbose {
		fmt.Printf("      %s\n", text)
	}
}

// row takes a TABLE record: title|cell|cell...
func (r *report) row(s suite.Shape, rest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cells := strings.Split(rest, "|")
	title := cells[0]
	for _, t := range r.printed {
		if t.title == title {
			t.rows = append(t.rows, cells[1:])
			return
		}
	}
	r.printed = append(r.printed, &table{title: title, rows: [][]string{cells[1:]}})
}

// tables prints all tables and writes those about locality for others to read, if they
// have all columns.
func (r *report) tables(root, out, kernel string) {
	for _, t := range r.printed {
		fmt.Printf("\n%s\n\n%s", t.title, t.plain())
	}
	if err := r.share(out); err != nil {
		r.failed++
		fmt.Println("FAIL  share.table:", err)
	}
	if err := r.bottle(root); err != nil {
		r.failed++
		fmt.Println("FAIL  bottle:", err)
	}
	for _, t := range r.locality {
		fmt.Printf("\n%s\n\n%s", t.title, t.plain())
		if !t.whole {
			continue
		}
		text := t.markdown() + "\n" + localityNote(t.shape, kernel)
		if err := os.WriteFile(filepath.Join(out, "locality-"+t.shape.Name+".md"), []byte(text), 0o644); err != nil {
			fmt.Println("rig: write table:", err)
		}
	}
}

func (t *table) widths() []int {
	var w []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(w) {
				w = append(w, 0)
			}
			w[i] = max(w[i], len([]rune(c)))
		}
	}
	return w
}

func (t *table) plain() string {
	var b strings.Builder
	w := t.widths()
	for _, row := range t.rows {
		line := " "
		for i, c := range row {
			line += fmt.Sprintf(" %-*s ", w[i], c)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (t *table) markdown() string {
	var b strings.Builder
	for i, row := range t.rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}

// closing is the last line: what a script looks for.
func (r *report) closing() {
	if len(r.secondTime) > 0 {
		fmt.Printf("failed, and passed when run again: %s\n", strings.Join(r.secondTime, ", "))
	}
	line := fmt.Sprintf("%d passed, %d failed", r.passed, r.failed)
	if r.skipped > 0 {
		line += fmt.Sprintf(", %d skipped", r.skipped)
	}
	fmt.Println(line)
}
