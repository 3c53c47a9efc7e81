// Pairs runs benchmarks of two commits by turns and prints, for each figure, both medians and
// the median of the ratios of the pairs. Other work on a machine meets both sides of a pair
// alike, so that ratios say something where the figures themselves do not. On a busy machine
// read those of CPU time: "cpu-s" is that of a whole run of a case.
//
//	go run ./bench/pairs -base main [-rounds 10] [-out bench/out/pairs] [case ...]
//
// It builds the test binaries of the base in a worktree of its own and those of the working
// tree here. The raw output is kept in the format of the testing package, one file for each
// side: `benchstat base.txt now.txt` reads them, too.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// bench is what is run of a package.
type bench struct {
	name, pkg string
	args      []string
	env       []string
}

var benches = []bench{
	{name: "place", pkg: "core/place", args: []string{"-test.bench", "^Benchmark(Place|Crowded)$", "-test.benchtime",
		"100x"}},
	{name: "scan", pkg: "core/control", args: []string{"-test.bench", "^BenchmarkScan$/^calm$/^workloads=300$",
		"-test.benchtime", "200x"}},
	{name: "start", pkg: "host/nri", args: []string{"-test.bench", "^BenchmarkCreateContainer$", "-test.benchtime",
		"1000x"}},
	{name: "look", pkg: "host/observe", args: []string{"-test.bench", "^BenchmarkLook(300|Sleepers)$",
		"-test.benchtime", "30x"}},
	// One thread plays the seeds; its CPU time is the figure.
	{name: "hostile", pkg: "sim/hostile", args: []string{"-test.run", "^TestHostile$", "-test.count", "1"},
		env: []string{"SEED=1", "SEEDS=20", "EVENTS=2000"}},
}

func main() {
	base := flag.String("base", "main", "the `commit` to compare with")
	rounds := flag.Int("rounds", 10, "pairs of each")
	out := flag.String("out", "bench/out/pairs", "`folder` for the raw output")
	flag.Parse()
	if err := compare(*base, *rounds, *out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// side is one of the two commits.
type side struct {
	name, tree string
	raw        *os.File
	figures    map[string][]float64 // by "benchmark unit", one of each round
}

func compare(base string, rounds int, out string, names []string) error {
	dir, err := os.MkdirTemp("", "homenode-pairs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "base")
	if err := run("git", "worktree", "add", "--quiet", "--detach", tree, base); err != nil {
		return err
	}
	defer run("git", "worktree", "remove", "--force", tree)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	sides := []*side{{name: "base", tree: tree}, {name: "now", tree: here}}
	for _, s := range sides {
		if s.raw, err = os.Create(filepath.Join(out, s.name+".txt")); err != nil {
			return err
		}
		defer s.raw.Close()
		s.figures = map[string][]float64{}
	}
	for _, b := range benches {
		if len(names) > 0 && !slices.Contains(names, b.name) {
			continue
		}
		for _, s := range sides {
			if err := s.build(&b, dir); err != nil {
				return err
			}
		}
		for round := range rounds {
			order := slices.Clone(sides)
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, s := range order {
				if err := s.run(&b, dir); err != nil {
					return err
				}
			}
		}
	}
	return table(sides[0], sides[1])
}

func (s *side) binary(b *bench, dir string) string {
	return filepath.Join(dir, s.name+"-"+b.name+".test")
}

func (s *side) build(b *bench, dir string) error {
	cmd := exec.Command("go", "test", "-c", "-o", s.binary(b, dir), "./"+b.pkg)
	cmd.Dir, cmd.Stderr = s.tree, os.Stderr
	return cmd.Run()
}

// run runs one side once and keeps each figure of it.
func (s *side) run(b *bench, dir string) error {
	args := b.args
	if len(b.env) == 0 {
		args = append([]string{"-test.run", "^$", "-test.benchmem"}, args...)
	}
	cmd := exec.Command(s.binary(b, dir), args...)
	cmd.Dir = filepath.Join(s.tree, filepath.FromSlash(b.pkg))
	cmd.Env = append(os.Environ(), b.env...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s of %s: %w\n%s", b.name, s.name, err, text)
	}
	// The CPU time of the whole process, set-up and collector as well: where other work delays
	// it, that is not in this.
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	text = fmt.Appendf(text, "Benchmark:%s 1 %.3f cpu-s\n", b.name, float64(used.Utime.Nano()+used.Stime.Nano())/1e9)
	load, _ := os.ReadFile("/proc/loadavg")
	if _, err := fmt.Fprintf(s.raw, "load: %s%s", load, text); err != nil {
		return err
	}
	return s.parse(text)
}

var processors = regexp.MustCompile(`-\d+$`)

// parse reads lines like "BenchmarkX-2 100 1234 ns/op 5 p99-µs".
func (s *side) parse(text []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		for rest := fields[2:]; len(rest) >= 2; rest = rest[2:] {
			value, err := strconv.ParseFloat(rest[0], 64)
			if err != nil {
				return fmt.Errorf("%q: %w", lines.Text(), err)
			}
			key := name + " | " + rest[1]
			s.figures[key] = append(s.figures[key], value)
		}
	}
	return lines.Err()
}

// table prints what both sides have.
func table(base, now *side) error {
	var keys []string
	for key := range now.figures {
		if len(base.figures[key]) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	fmt.Println("| benchmark | unit | base | now | now / base, median of pairs (quartiles) |\n|---|---|---|---|---|")
	for _, key := range keys {
		was, is := base.figures[key], now.figures[key]
		var ratios []float64
		for i := range min(len(was), len(is)) {
			if was[i] > 0 {
				ratios = append(ratios, is[i]/was[i])
			}
		}
		if len(ratios) == 0 {
			continue
		}
		fmt.Printf("| %s | %.4g | %.4g | %.2f (%.2f to %.2f) |\n", key, quantile(was, 2), quantile(is, 2),
			quantile(ratios, 2), quantile(ratios, 1), quantile(ratios, 3))
	}
	return nil
}

// quantile is a quartile: 2 is the median.
func quantile(all []float64, quarters int) float64 {
	all = slices.Sorted(slices.Values(all))
	at := float64(len(all)-1) * float64(quarters) / 4
	low := int(at)
	high := min(low+1, len(all)-1)
	return all[low] + (all[high]-all[low])*(at-float64(low))
}

func run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}
