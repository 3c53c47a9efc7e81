// Sharesim plays the scenarios of bench/sharing with many seeds, under the daemon's own decisions
// and under rules that others have published, and writes what came of it.
//
//	go run ./bench/sharesim                # bench/results/share-sim.md and .csv
//	go run ./bench/sharesim -seeds 3 -o ""
//
// The exit status is 1 when a run of the daemon did not keep a bound of bench/sharing.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/homenode/homenode/bench/sharing"
)

// cell is one scenario under one policy.
type cell struct {
	scenario sharing.Scenario
	policy   string
	runs     []sharing.Score // by seed
	broken   []string
}

func main() {
	seeds := flag.Int("seeds", 50, "`N` variants of each scenario")
	dir := flag.String("o", "bench/results",
		"`DIR` for share-sim.md and share-sim.csv; empty: the tables on standard output")
	cost := flag.Bool("cost", true, "measure what the controller costs, too")
	flag.Parse()
	debug.SetGCPercent(400)
	cells, err := play(*seeds)
	if err == nil {
		err = write(cells, *seeds, *dir, *cost)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sharesim: %v\n", err)
		os.Exit(1)
	}
}

// play fills the cells, as many at a time as there are CPUs.
func play(seeds int) ([]*cell, error) {
	var cells []*cell
	for _, s := range sharing.Scenarios() {
		for _, p := range sharing.Policies {
			cells = append(cells, &cell{scenario: s, policy: p})
		}
	}
	todo := make(chan *cell)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for c := range todo {
				for seed := range seeds {
					x, err := sharing.Run(&c.scenario, c.policy, uint64(seed+1))
					c.runs = append(c.runs, x)
					text := x.Broken()
					if err != nil {
						text = err.Error()
					}
					if text != "" {
						c.broken = append(c.broken, fmt.Sprintf("seed %d: %s", seed+1, text))
					}
				}
				if c.policy == sharing.Homenode {
					fmt.Fprintf(os.Stderr, "%-50s %d of %d runs keep all bounds\n", c.scenario.Name,
						seeds-len(c.broken), seeds)
				}
			}
		})
	}
	for _, c := range cells {
		todo <- c
	}
	close(todo)
	workers.Wait()
	return cells, nil
}

// column is one figure of a run.
type column struct {
	name, unit string
	of         func(*sharing.Score) float64
	format     string
}

var columns = []column{
	{"err", "points", func(s *sharing.Score) float64 { return s.Err }, "%.2f"},
	{"err, 95 of 100", "points", func(s *sharing.Score) float64 { return s.P95 }, "%.2f"},
	{"err of a node", "points", func(s *sharing.Score) float64 { return s.Node }, "%.2f"},
	{"err, always", "points", func(s *sharing.Score) float64 { return s.All }, "%.2f"},
	{"cut", "CPU s", func(s *sharing.Score) float64 { return s.Cut }, "%.0f"},
	{"late", "of 10,000", func(s *sharing.Score) float64 { return 1e4 * s.Late }, "%.1f"},
	{"short", "%", func(s *sharing.Score) float64 { return 100 * s.Short }, "%.2f"},
	{"turns", "a minute", func(s *sharing.Score) float64 { return s.Turns }, "%.2f"},
	{"changes", "a minute", func(s *sharing.Score) float64 { return s.Changes }, "%.2f"},
	{"progress", "%", func(s *sharing.Score) float64 { return 100 * s.Progress }, "%.0f"},
}

func quantile(xs []float64, q float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[min(len(xs)-1, int(q*float64(len(xs))))]
}

func (c *column) all(cells []*cell, policy string) []float64 {
	var out []float64
	for _, x := range cells {
		if x.policy == policy {
			for i := range x.runs {
				out = append(out, c.of(&x.runs[i]))
			}
		}
	}
	return out
}

func write(cells []*cell, seeds int, dir string, cost bool) error {
	var out bytes.Buffer
	w := &out
	fmt.Fprintf(w, "# Sharing in the simulator: %d scenarios × %d seeds\n\n", len(cells)/len(sharing.Policies), seeds)
	fmt.Fprintf(w, "%s; %s; `make bench-share-sim`. Every run is in share-sim.csv.\n\n", machine(), runtime.Version())
	fmt.Fprint(w,
		`Homenode is control.Next as the daemon runs it, every 2 s; what it sets takes effect half a second later. The others are rules written from what is published of them
(bench/sharing/policy.go): Koordinator's suppressor every second, PerfIso every half second. Online work is served first under all of them but static halves. The simulator has no caches and no SMT:
how much online work feels is not in these figures.

- err: how far the CPUs that were busy, over ten seconds, were from what was possible, in hundredths of the host's CPUs. Possible is the target, or less where the CPUs kept idle or what
  batch work wants bound it, or more where online work alone uses more. Mean over the windows before which online work had not changed by more than 3 % for 40 s, noise aside; "always" is
  the mean over all windows, and "of a node" that of each node by itself.
- cut: CPU seconds that online work wanted, did not get, and would have got without batch work.
- late: part of online work's CPU time that began when no CPU was idle.
- short: part of the time in which fewer CPUs were idle than an eighth of the node and batch work had more than its least.
- turns: how often in a minute the CPUs given turned from more to less or back, on the worst node; changes: how often they changed, a node.
- progress: CPU time of batch work, of what was possible. Above 100 % it had what should have been idle.

`)
	fmt.Fprintf(w, "## All runs: median (worst)\n\n| policy |")
	for i := range columns {
		fmt.Fprintf(w, " %s, %s |", columns[i].name, columns[i].unit)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, p := range sharing.Policies {
		fmt.Fprintf(w, "| %s |", p)
		for i := range columns {
			c := &columns[i]
			xs := c.all(cells, p)
			worst := slices.Max(xs)
			if c.name == "progress" {
				worst = slices.Min(xs)
			}
			fmt.Fprintf(w, " "+c.format+" ("+c.format+") |", quantile(xs, 0.5), worst)
		}
		fmt.Fprintln(w)
	}
	byScenario(w, cells)
	bad := 0
	fmt.Fprintf(w,
		"\n## Bounds\n\nEach run of homenode must be within %d points, cut nothing, turn %.1f times a minute at "+
			"most, leave batch work %.0f %% of what is possible, and more: Broken in bench/sharing/judge.go.\n\n",
		sharing.MostErr, sharing.MostTurns, 100*sharing.LeastDone)
	for _, x := range cells {
		if x.policy == sharing.Homenode {
			bad += len(x.broken)
			for _, text := range x.broken {
				fmt.Fprintf(w, "- %s, %s\n", x.scenario.Name, text)
			}
		}
	}
	fmt.Fprintf(w, "%d of %d runs keep all of them.\n", len(cells)/len(sharing.Policies)*seeds-bad,
		len(cells)/len(sharing.Policies)*seeds)
	for _, p := range sharing.Policies[1:] {
		n := 0
		for _, x := range cells {
			if x.policy == p {
				n += len(x.broken)
			}
		}
		fmt.Fprintf(w, "%s: %d of %d runs do.\n", p, len(cells)/len(sharing.Policies)*seeds-n,
			len(cells)/len(sharing.Policies)*seeds)
	}
	if cost {
		text, err := costs()
		if err != nil {
			return err
		}
		w.WriteString(text)
	}
	if dir == "" {
		_, err := io.Copy(os.Stdout, &out)
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "share-sim.md"), out.Bytes(), 0o644); err != nil {
		return err
	}
	if err := raw(cells, filepath.Join(dir, "share-sim.csv")); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d runs did not keep a bound", bad)
	}
	return nil
}

// byScenario writes two figures by scenario.
func byScenario(w io.Writer, cells []*cell) {
	for _, i := range []int{0, 7} {
		c := &columns[i]
		fmt.Fprintf(w, "\n## %s by scenario, %s: medians, and as many times that of homenode\n\n| scenario |", c.name,
			c.unit)
		for _, p := range sharing.Policies {
			fmt.Fprintf(w, " %s |", p)
		}
		fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(sharing.Policies)))
		for k := 0; k < len(cells); k += len(sharing.Policies) {
			fmt.Fprintf(w, "| %s |", cells[k].scenario.Name)
			own := 0.0
			for j, x := range cells[k : k+len(sharing.Policies)] {
				m := quantile(c.all([]*cell{x}, x.policy), 0.5)
				if j == 0 {
					own = m
					fmt.Fprintf(w, " "+c.format+" |", m)
				} else if own > 0 {
					fmt.Fprintf(w, " "+c.format+" (× %.1f) |", m, m/own)
				} else {
					fmt.Fprintf(w, " "+c.format+" |", m)
				}
			}
			fmt.Fprintln(w)
		}
	}
}

// raw writes every run.
func raw(cells []*cell, path string) error {
	var out bytes.Buffer
	fmt.Fprint(&out, "scenario,policy,seed")
	for i := range columns {
		fmt.Fprintf(&out, ",%s (%s)", strings.ReplaceAll(columns[i].name, ",", ""), columns[i].unit)
	}
	for k, x := range cells {
		for seed := range x.runs {
			fmt.Fprintf(&out, "\n%d,%d,%d", k/len(sharing.Policies)+1, k%len(sharing.Policies)+1, seed+1)
			for i := range columns {
				fmt.Fprintf(&out, ",%.4g", columns[i].of(&x.runs[seed]))
			}
		}
	}
	fmt.Fprintln(&out)
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// costs is what benchmarks of the controller say.
func costs() (string, error) {
	out := `
## What the controller costs

300 workloads, 240 of them batch work, on 8 nodes of 64 CPUs, a look every 2 s; CPU time. Round300 is all of control.Next with the results of what it set (placing and sharing; the writes
themselves are not in it), without sharing and with it. Decide is the part of core/share, wall clock. Share300 is with its reads, on tmpfs, where nothing is to be written.

` + "```\n"
	for _, args := range [][]string{
		{"-bench", "^BenchmarkRound300$", "-benchtime", "300x", "./bench/sharing"},
		{"-bench", "^BenchmarkDecide$", "./core/share"},
		{"-bench", "^BenchmarkShare300$", "./host/observe"},
	} {
		text, err := exec.Command("go", append([]string{"test", "-run", "^$", "-benchmem"},
			args...)...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go test %s: %w\n%s", strings.Join(args, " "), err, text)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Benchmark") {
				out += line
			}
		}
	}
	return out + "```\n", nil
}

// machine is where this runs.
func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if name, value, _ := strings.Cut(s.Text(), ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d CPUs; Linux %s", model, runtime.NumCPU(), strings.TrimSpace(string(kernel)))
}
