// Goalsim plays the scenarios of bench/sharing with latency goals, with many seeds, under the daemon's own
// decisions and under published rules, and writes the results.
//
//	go run ./bench/goalsim                  # bench/results/share-goals.md and .csv
//	go run ./bench/goalsim -seeds 3 -o ""   # the tables on standard output
//	go run ./bench/goalsim -first 14 -seeds 37 -after bench/results/share-goals.csv   # seeds 1 to 13 are played
//
// Seeds are played one after the other, all scenarios and policies of each: -for ends after the seed in
// progress.
package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/bench/sharing"
)

// cell is one scenario under one policy.
type cell struct {
	scenario sharing.GoalScenario
	policy   string
	runs     []sharing.GoalScore // by seed
}

func main() {
	seeds := flag.Int("seeds", 50, "`N` variants of each scenario")
	first := flag.Int("first", 1, "`SEED` of the first variant")
	dir := flag.String("o", "bench/results",
		"`DIR` for share-goals.md and share-goals.csv; empty: the tables on standard output")
	after := flag.String("after", "", "take the seeds before the first from `FILE`, a share-goals.csv with just those")
	most := flag.Duration("for", 24*time.Hour, "begin no other seed after `DURATION`")
	flag.Parse()
	debug.SetGCPercent(400)
	cells := allCells()
	var earlier int
	var err error
	if *after != "" {
		earlier = *first - 1
		err = read(cells, earlier, *after)
	}
	var played int
	if err == nil {
		played, err = play(cells, *first, *seeds, *most)
	}
	if err == nil {
		err = write(cells, *first-earlier, earlier+played, *dir)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "goalsim: %v\n", err)
		os.Exit(1)
	}
}

// allCells returns the cells, without runs.
func allCells() (cells []*cell) {
	for _, s := range sharing.GoalScenarios() {
		for _, p := range sharing.GoalPolicies {
			cells = append(cells, &cell{scenario: s, policy: p})
		}
	}
	return cells
}

// read fills the cells with the runs of so many seeds that raw wrote.
func read(cells []*cell, seeds int, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) != 1+len(cells)*seeds {
		want := len(cells) * seeds
		return fmt.Errorf("%s has %d runs; want %d, %d cells with seeds 1 to %d",
			path, len(rows)-1, want, len(cells), seeds)
	}
	if got := strings.Join(rows[0], ","); got != header() {
		return fmt.Errorf("%s has columns %q, want %q", path, got, header())
	}
	for i, row := range rows[1:] {
		var x [7]float64
		for k := range x {
			x[k], err = strconv.ParseFloat(row[3+k], 64)
			if err != nil {
				return fmt.Errorf("%s, line %d: %w", path, i+2, err)
			}
		}
		c := cells[i/seeds]
		c.runs = append(c.runs, sharing.GoalScore{
			Use: x[0] / 100, Possible: x[1] / 100, Certain: x[2] / 100,
			Violated: x[3] / 100, Any: x[4] / 100,
			Recovery: x[5], Turns: x[6],
		})
	}
	return nil
}

// play adds the runs of more seeds, as many at a time as there are CPUs.
func play(cells []*cell, first, seeds int, most time.Duration) (played int, err error) {
	began := time.Now()
	for played = 0; played < seeds && time.Since(began) < most; played++ {
		seed := uint64(first + played)
		todo := make(chan *cell)
		var workers sync.WaitGroup
		var mu sync.Mutex
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				for c := range todo {
					x, wrong := sharing.RunGoals(&c.scenario, c.policy, seed)
					c.runs = append(c.runs, x)
					if wrong != nil {
						mu.Lock()
						err = wrong
						mu.Unlock()
					}
				}
			})
		}
		for _, c := range cells {
			todo <- c
		}
		close(todo)
		workers.Wait()
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(os.Stderr, "seed %d after %v\n", seed, time.Since(began).Round(time.Second))
	}
	return played, nil
}

// column is one figure of a run.
type column struct {
	name string
	of   func(*sharing.GoalScore) float64
	form string
}

var columns = []column{
	{"use at which goals held, %", func(s *sharing.GoalScore) float64 { return 100 * s.Use }, "%.1f"},
	{"possible, %", func(s *sharing.GoalScore) float64 { return 100 * s.Possible }, "%.1f"},
	{"possible with slack, %", func(s *sharing.GoalScore) float64 { return 100 * s.Certain }, "%.1f"},
	{"time in violation, % (mean of goals)", func(s *sharing.GoalScore) float64 { return 100 * s.Violated }, "%.2f"},
	{"any goal, %", func(s *sharing.GoalScore) float64 { return 100 * s.Any }, "%.2f"},
	{"recovery, scans", func(s *sharing.GoalScore) float64 { return s.Recovery }, "%.1f"},
	{"reversals a minute", func(s *sharing.GoalScore) float64 { return s.Turns }, "%.2f"},
}

// all is a figure of all runs of some cells.
func (c *column) all(cells []*cell, policy string) (out []float64) {
	for _, x := range cells {
		if x.policy != policy {
			continue
		}
		for i := range x.runs {
			out = append(out, c.of(&x.runs[i]))
		}
	}
	return out
}

const preface = `Homenode is control.Next as the daemon runs it, every 2 s, with and without goals; what it sets takes effect
half a second later. Both scan early where online work finds no idle CPU (bench/sharing/loop.go), as the daemon does
when a pressure trigger fires. The others follow their publications (bench/sharing/policy.go, peers.go):
Koordinator's suppressor every second, PerfIso every half second, Heracles every 2 and 15 s, PARTIES every half
second. Heracles and PARTIES give online and batch work cores of their own, and also divide caches (both) and
memory bandwidth (PARTIES); homenode divides cores alone here.

The latency model (bench/sharing/latency.go) has a queue (M/G/k, a node is k servers), busy SMT siblings, caches,
memory bandwidth, and the cost of taking a CPU from batch work. It is no measurement: its constants are chosen,
not fitted. A policy sees each service's p99 of its own last interval with 3 % noise at 2 s, more at shorter
ones. A goal is 1.2 to 1.6 times the p99 at the service's ordinary peak without batch work.

- use at which goals held: busy share of the CPUs; batch work counts only in ticks of half a second in which
  every goal held that holds without batch work.
- possible: an oracle that knows the model and gives each node the same part of what is free. No policy on a
  real host can know it.
- possible with slack: the same with each limit lowered by 7.5 %, two and a half standard deviations of a reading's
  noise. A policy that leaves less takes a goal that holds for a missed one too often.
- time in violation: of each goal, ticks in which it was missed and would have held without batch work.
- recovery: 95th percentile of the time until all goals held again after online work of a node grew by a tenth
  of its CPUs within a scan and a goal was missed.
- reversals: how often the CPUs given to batch work turned from more to less or back, on the worst node.

`

func write(cells []*cell, first, played int, dir string) error {
	var out bytes.Buffer
	w := &out
	n := len(sharing.GoalPolicies)
	fmt.Fprintf(w, "# Latency goals in the simulator: %d scenarios × %d seeds\n\n", len(cells)/n, played)
	last := first + played - 1
	fmt.Fprintf(w, "Seeds %d to %d; %s; `go run ./bench/goalsim`. ", first, last, runtime.Version())
	fmt.Fprint(w, "Every run is in share-goals.csv.\n\n")
	fmt.Fprint(w, preface)
	fmt.Fprintf(w, "## All runs: mean (worst scenario)\n\n| policy |")
	for i := range columns {
		fmt.Fprintf(w, " %s |", columns[i].name)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, p := range sharing.GoalPolicies {
		fmt.Fprintf(w, "| %s |", p)
		for i := range columns {
			c := &columns[i]
			var by []float64
			for _, x := range cells {
				if x.policy == p {
					by = append(by, sharing.Mean(c.all([]*cell{x}, p)))
				}
			}
			worst := slices.Max(by)
			if i < 3 {
				worst = slices.Min(by)
			}
			fmt.Fprintf(w, " "+c.form+" ("+c.form+") |", sharing.Mean(by), worst)
		}
		fmt.Fprintln(w)
	}
	for _, i := range []int{0, 3} {
		c := &columns[i]
		fmt.Fprintf(w, "\n## %s, by scenario\n\n| scenario | goal, × peak |", c.name)
		if i == 0 {
			fmt.Fprint(w, " possible | with slack | homenode, goals, % of it |")
		}
		for _, p := range sharing.GoalPolicies {
			fmt.Fprintf(w, " %s |", p)
		}
		fmt.Fprintf(w, "\n|---|---|%s\n", strings.Repeat("---|", n+3-i))
		for k := 0; k < len(cells); k += n {
			fmt.Fprintf(w, "| %s | %.1f |", cells[k].scenario.Name, cells[k].scenario.Factor)
			if i == 0 {
				of := func(column int) float64 {
					return sharing.Mean(columns[column].all(cells[k:k+1], cells[k].policy))
				}
				fmt.Fprintf(w, " %.1f | %.1f | %.0f |", of(1), of(2), 100*of(0)/of(2))
			}
			for _, x := range cells[k : k+n] {
				fmt.Fprintf(w, " "+c.form+" |", sharing.Mean(c.all([]*cell{x}, x.policy)))
			}
			fmt.Fprintln(w)
		}
	}
	if dir == "" {
		_, err := io.Copy(os.Stdout, &out)
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "share-goals.md"), out.Bytes(), 0o644); err != nil {
		return err
	}
	return raw(cells, filepath.Join(dir, "share-goals.csv"))
}

// header is the first line of what raw writes.
func header() string {
	names := []string{"scenario", "policy", "run"}
	for i := range columns {
		names = append(names, strings.ReplaceAll(columns[i].name, ",", ""))
	}
	return strings.Join(names, ",")
}

// raw writes every run.
func raw(cells []*cell, path string) error {
	var out bytes.Buffer
	fmt.Fprint(&out, header())
	n := len(sharing.GoalPolicies)
	for k, x := range cells {
		for run := range x.runs {
			fmt.Fprintf(&out, "\n%d,%d,%d", k/n+1, k%n+1, run+1)
			for i := range columns {
				fmt.Fprintf(&out, ",%.4g", columns[i].of(&x.runs[run]))
			}
		}
	}
	fmt.Fprintln(&out)
	return os.WriteFile(path, out.Bytes(), 0o644)
}
