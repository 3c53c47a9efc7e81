package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

// report prints results as they come and tables at the end.
type report struct {
	mu                      sync.Mutex // guests that run beside each other report
	verbose                 bool
	passed, failed, skipped int
	spent                   time.Duration // CPU time of all guests
	printed                 []*table
	locality                *table // also written as Markdown
}

// table has its head as first row.
type table struct {
	title string
	rows  [][]string
	whole bool // nothing is missing: fit to be shown to others
}

func (r *report) add(s suite.Shape, res suite.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch res.Outcome {
	case suite.OK:
		r.passed++
	case suite.Skip:
		r.skipped++
	default:
		r.failed++
	}
	fmt.Printf("%-4s  %-9s %-24s %6.1f s  %s\n", res.Outcome, s.Name, res.Name, res.Took.Seconds(), res.Text)
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

// tables prints all tables and writes the one about locality for the README, if it
// has all columns.
func (r *report) tables(markdown, kernel string) {
	for _, t := range r.printed {
		fmt.Printf("\n%s\n\n%s", t.title, t.plain())
	}
	if r.locality == nil {
		return
	}
	fmt.Printf("\n%s\n\n%s", r.locality.title, r.locality.plain())
	if !r.locality.whole {
		return
	}
	text := r.locality.markdown() + "\n" + localityNote(kernel)
	if err := os.WriteFile(markdown, []byte(text), 0o644); err != nil {
		fmt.Println("rig: write table:", err)
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
	line := fmt.Sprintf("%d passed, %d failed", r.passed, r.failed)
	if r.skipped > 0 {
		line += fmt.Sprintf(", %d skipped", r.skipped)
	}
	fmt.Println(line)
}
