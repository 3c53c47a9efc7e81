package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
)

const (
	// novaVersion is the release that is driven, and that the stored scores are of.
	novaVersion = "34.0.0"

	// fetchLimit bounds setting up a peer: a slow line, or a cold build on two CPUs.
	fetchLimit = 30 * time.Minute

	// runLimit bounds one round of a peer.
	runLimit = 10 * time.Minute
)

// speedOptions say how `-speed` runs.
type speedOptions struct {
	rounds   int
	arrivals int    // in each trace that is made up
	kubelet  bool   // build and run the kubelet's managers too
	sources  string // where the peers' drivers are
	keep     string // folder for raw results; "" keeps none
}

// sample is one peer's decisions on one case in one round.
type sample struct {
	Round    int     `json:"round"`
	Peer     string  `json:"peer"`
	Case     string  `json:"case"`
	Nodes    int     `json:"nodes"`
	N        int     `json:"n"`
	Accepted int     `json:"accepted"`
	P50      float64 `json:"p50_us"`
	P90      float64 `json:"p90_us"`
	Max      float64 `json:"max_us"`
}

// decision is told of each: who decided on which case, whether it was a yes, and how long it took.
type decision func(peer, name string, ok bool, ns int64)

// contender runs all cases once and hands out each decision's time.
type contender struct {
	name string
	run  func(decided decision) error
}

// speed sets decision times of the engine, the reference policies and the real
// peers side by side on the same events. Rounds alternate: every other one runs
// the contenders in reverse order, so that a machine that gets slower or faster
// meanwhile favours none.
func speed(w io.Writer, paths []string, o speedOptions) error {
	if len(paths) == 0 {
		dir, err := os.MkdirTemp("", "homenode-bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if paths, err = writeTraces(dir, o.arrivals); err != nil {
			return err
		}
	}
	var cases []*replay.Case
	nodes := map[string]int{}
	for i, path := range paths {
		c, err := read(path)
		if err != nil {
			return err
		}
		cases = append(cases, c)
		nodes[c.Name] = len(c.Host.Nodes)
		if paths[i], err = filepath.Abs(path); err != nil {
			return err
		}
	}
	contenders, skipped := o.contenders(cases, paths)
	var samples []sample
	for round := range o.rounds {
		order := slices.Clone(contenders)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, c := range order {
			times, taken := map[[2]string][]int64{}, map[[2]string]int{}
			err := c.run(func(peer, name string, ok bool, ns int64) {
				k := [2]string{peer, name}
				times[k] = append(times[k], ns)
				if ok {
					taken[k]++
				}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			for k, ns := range times {
				slices.Sort(ns)
				at := func(q int) float64 { return float64(ns[min(len(ns)-1, len(ns)*q/100)]) / 1e3 }
				samples = append(samples, sample{Round: round, Peer: k[0], Case: k[1], Nodes: nodes[k[1]], N: len(ns),
					Accepted: taken[k], P50: at(50), P90: at(90), Max: at(100)})
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	slices.SortFunc(samples, func(a, b sample) int {
		if a.Round != b.Round {
			return a.Round - b.Round
		}
		return strings.Compare(a.Peer+"\x00"+a.Case, b.Peer+"\x00"+b.Case)
	})
	var table bytes.Buffer
	printSpeed(&table, samples, cases, skipped)
	if o.keep != "" {
		if err := keepSpeed(o.keep, table.Bytes(), samples); err != nil {
			return err
		}
	}
	_, err := w.Write(table.Bytes())
	return err
}

func (o speedOptions) contenders(cases []*replay.Case, paths []string) (out []contender, skipped []string) {
	out = append(out, contender{"homenode", func(decided decision) error {
		start := time.Now()
		for _, c := range cases {
			err := replay.Run(c,
				replay.Options{Peer: "homenode", Now: func() int64 { return time.Since(start).Nanoseconds() },
					Answered: func(a *replay.Answer, _ *place.Ledger) error {
						decided(a.Peer, a.Case, a.OK,
							a.Nanos)
						return nil
					}})
			if err != nil {
				return err
			}
		}
		return nil
	}})
	for _, r := range references {
		out = append(out, contender{r.name, func(decided decision) error {
			for _, c := range cases {
				r.time(c, func(ok bool, ns int64) { decided(r.name, c.Name, ok, ns) })
			}
			return nil
		}})
	}
	external := func(name string, set func() (string, []string, error)) {
		program, args, err := set()
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%s: %v", name, err))
			fmt.Fprintf(os.Stderr, "skipped: %s: %v\n", name, err)
			return
		}
		out = append(out, contender{name, func(decided decision) error {
			return drive(program, append(args, paths...), decided)
		}})
	}
	external("nova", o.nova)
	if o.kubelet {
		external("kubelet", o.kubeletManagers)
	} else {
		skipped = append(skipped, "kubelet: not asked for (-kubelet; its first build takes a quarter of an hour)")
	}
	return out, skipped
}

// drive runs a peer's driver and reads its lines.
func drive(program string, args []string, decided decision) error {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(errs.String()))
	}
	d := json.NewDecoder(&out)
	for {
		var a replay.Answer
		switch err := d.Decode(&a); err {
		case nil:
			decided(a.Peer, a.Case, a.OK, a.Nanos)
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// nova makes a Python environment with Nova in it, once.
func (o speedOptions) nova() (string, []string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	dir := filepath.Join(cache, "homenode-bench", "nova-"+novaVersion)
	python := filepath.Join(dir, "bin", "python")
	if exec.Command(python, "-c", "import nova.virt.hardware").Run() != nil {
		if err := fetch("", "python3", "-m", "venv", "--clear", dir); err != nil {
			return "", nil, err
		}
		if err := fetch("", python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"nova=="+novaVersion); err != nil {
			return "", nil, err
		}
	}
	return python, []string{filepath.Join(o.sources, "nova_peer.py")}, nil
}

// kubeletManagers builds their driver, a module of its own.
func (o speedOptions) kubeletManagers() (string, []string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	program := filepath.Join(cache, "homenode-bench", "kubelet")
	return program, nil, fetch(filepath.Join(o.sources, "kubelet"), "go", "build", "-o", program, ".")
}

// fetch runs a command that sets a peer up.
func fetch(dir, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	fmt.Fprintf(os.Stderr, "%s %s\n", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, lastLine(string(out)))
	}
	return nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// printSpeed writes one table: medians over rounds, and how many times homenode's
// time it is, round by round.
func printSpeed(w io.Writer, samples []sample, cases []*replay.Case, skipped []string) {
	rounds := 0
	var peers []string
	for _, s := range samples {
		rounds = max(rounds, s.Round+1)
		if !slices.Contains(peers, s.Peer) {
			peers = append(peers, s.Peer)
		}
	}
	fmt.Fprintf(w, "%s; `%s`; %d rounds, alternating.\n\n", machine(),
		strings.Join(append([]string{"go run ./bench/placement"}, os.Args[1:]...), " "), rounds)
	fmt.Fprint(w, "| decision, median µs (times homenode's) |")
	for _, c := range cases {
		fmt.Fprintf(w, " %s |", c.Name)
	}
	fmt.Fprintf(w, " accepted |\n|---|%s---|\n", strings.Repeat("---|", len(cases)))
	byRound := func(peer, name string) []float64 {
		var out []float64
		for _, s := range samples {
			if s.Peer == peer && s.Case == name {
				out = append(out, s.P50)
			}
		}
		return out
	}
	slices.SortStableFunc(peers, func(a, b string) int { // ours first, then by the first case
		switch {
		case a == "homenode":
			return -1
		case b == "homenode":
			return 1
		case median(byRound(a, cases[0].Name)) < median(byRound(b, cases[0].Name)):
			return -1
		}
		return 1
	})
	for _, peer := range peers {
		fmt.Fprintf(w, "| %s |", peer)
		for _, c := range cases {
			theirs, ours := byRound(peer, c.Name), byRound("homenode", c.Name)
			fmt.Fprintf(w, " %s", short(median(theirs)))
			if peer != "homenode" && len(theirs) == len(ours) {
				ratios := make([]float64, len(ours))
				for k := range ours {
					ratios[k] = theirs[k] / ours[k]
				}
				fmt.Fprintf(w, " (%s; %s to %s)", short(median(ratios)), short(slices.Min(ratios)),
					short(slices.Max(ratios)))
			}
			fmt.Fprint(w, " |")
		}
		n, taken := 0, 0
		for _, s := range samples {
			if s.Peer == peer {
				n, taken = n+s.N, taken+s.Accepted
			}
		}
		fmt.Fprintf(w, " %.1f %% |\n", 100*float64(taken)/float64(n))
	}
	for _, s := range skipped {
		fmt.Fprintf(w, "\nSkipped: %s.\n", s)
	}
}

// short is a figure of two digits or more.
func short(x float64) string {
	if x >= 99.5 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// machine is what the figures were taken on, in one line.
func machine() string {
	text := func(name string) string { b, _ := os.ReadFile(name); return string(b) }
	model := "unknown CPU"
	for line := range strings.Lines(text("/proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	load := strings.Fields(text("/proc/loadavg"))
	return fmt.Sprintf("%s, %d CPUs; Linux %s; %s; load average %s", model, runtime.NumCPU(),
		strings.TrimSpace(text("/proc/sys/kernel/osrelease")), runtime.Version(),
		strings.Join(load[:min(3, len(load))], " "))
}

// keepSpeed keeps the table and the raw samples under it.
func keepSpeed(dir string, table []byte, samples []sample) error {
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "placement-speed.md"), table,
		0o644)); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "placement-speed.jsonl"))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	enc := json.NewEncoder(out)
	for _, s := range samples {
		if err := enc.Encode(s); err != nil {
			return err
		}
	}
	return errors.Join(out.Flush(), f.Close())
}
