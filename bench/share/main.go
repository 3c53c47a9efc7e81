package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/homenode/homenode/bench/openloop"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/store"
)

type options struct {
	out, cases, online, batch, homenode string
	runs                                int
	run, warm                           time.Duration
	rate                                float64
	seed                                uint64
	smoke                               bool
}

func main() {
	if ok, err := role(os.Args[1:]); ok {
		if err != nil {
			fmt.Fprintln(os.Stderr, "share:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.out, "o", "bench/out/share", "`DIR` for report.html and results.json")
	flag.StringVar(&o.cases, "cases", "B,C,W,T,P",
		"`CASES`: B alone, C nothing done, W cpu.weight, T homenode share, P with sched_ext")
	flag.StringVar(&o.online, "online", "auto",
		"online `work`: nginx, own, auto: nginx where it is installed, or step: threads that wake at the same moment")
	flag.StringVar(&o.batch, "batch", "auto",
		"batch work: ffmpeg, stress-ng, own, or auto: the first that is installed")
	flag.StringVar(&o.homenode, "homenode", "./homenode", "the `program`")
	flag.IntVar(&o.runs, "runs", 7, "runs of each case")
	flag.DurationVar(&o.run, "time", time.Minute, "`time` of a run that is counted")
	flag.DurationVar(&o.warm, "warm", 15*time.Second,
		"`time` before it; homenode gives batch work more after 10 s of room")
	flag.Float64Var(&o.rate, "rate", 0,
		"requests or steps a second (0: 20 steps, or so many requests that the server alone keeps 27 % of the CPUs "+
			"busy)")
	flag.Uint64Var(&o.seed, "seed", 1, "of the order of the runs and of the intervals")
	flag.BoolVar(&o.smoke, "smoke", false, "a short run of each case: does it run? The figures say nothing")
	flag.Parse()
	if o.smoke {
		short := map[string]string{"runs": "1", "time": "0.5s", "warm": "0.5s", "rate": "20"}
		flag.Visit(func(f *flag.Flag) { delete(short, f.Name) })
		for name, value := range short {
			flag.Set(name, value)
		}
	}
	if err := o.check(); err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "share:", errors.Join(err, errUsage))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := experiment(ctx, o)
	var not errCannot
	switch {
	case errors.As(err, &not):
		fmt.Fprintln(os.Stderr, "share: cannot run here:", not)
		os.Exit(3)
	case err != nil:
		fmt.Fprintln(os.Stderr, "share:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: share [-smoke] [-o DIR] [-cases B,C,W,T,P] [-runs N] [-time T] [-warm T] [-rate N] " +
	"[-seed N] [-online KIND] [-batch KIND] [-homenode PROGRAM]")

func (o options) check() error {
	for id := range strings.SplitSeq(o.cases, ",") {
		if !slices.ContainsFunc(ways, func(w way) bool { return w.ID == id }) {
			return fmt.Errorf("-cases: no case %q", id)
		}
	}
	switch {
	case !strings.Contains(o.cases, "B"):
		return errors.New("-cases: B is what the others are compared with")
	case !slices.Contains([]string{"auto", "nginx", "own", stepName}, o.online):
		return fmt.Errorf("-online: no work %q", o.online)
	case !slices.Contains([]string{"auto", "ffmpeg", "stress-ng", "own"}, o.batch):
		return fmt.Errorf("-batch: no batch work %q", o.batch)
	case math.IsNaN(o.rate) || math.IsInf(o.rate, 0):
		return fmt.Errorf("-rate: %v is no rate", o.rate)
	case o.online == stepName && o.rate*stepWork.Seconds() > 0.5:
		return fmt.Errorf("-rate: a step is %v of work, so 250 a second at most", stepWork)
	case o.online == stepName && o.rate > 0 && o.rate*o.run.Seconds() < 1:
		return fmt.Errorf("-rate: no step in %v: a higher rate, or a longer -time", o.run)
	case o.runs < 1 || o.run <= 0 || o.warm < 0 || o.rate < 0:
		return errors.New("-runs, -time: more than 0; -warm, -rate: not below 0")
	}
	return nil
}

// role is what this program does for itself in a cgroup of the experiment.
func role(args []string) (bool, error) {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return true, serve(args[1])
	case len(args) == 2 && args[0] == "burn":
		n, err := strconv.Atoi(args[1])
		if err == nil {
			err = burn(n, os.Stdout)
		}
		return true, err
	case len(args) > 3 && args[0] == "crowd":
		n, err := strconv.Atoi(args[1])
		if err == nil {
			err = crowd(n, args[2], args[3:], os.Stdout)
		}
		return true, err
	case len(args) == 6 && args[0] == "load":
		return true, generate(args[1:])
	case len(args) == 5 && args[0] == stepName:
		return true, step(args[1:])
	}
	return false, nil
}

// generate is the generator's process: ADDRESS RATE WARM TIME CONNECTIONS.
func generate(args []string) error {
	rate, err := strconv.ParseFloat(args[1], 64)
	warm, err2 := time.ParseDuration(args[2])
	run, err3 := time.ParseDuration(args[3])
	conns, err4 := strconv.Atoi(args[4])
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	l := openloop.Load{Rate: rate, Warm: warm, Count: run, Conns: conns, Until: openloop.SleepTo,
		Dial:  func() (net.Conn, error) { return net.Dial("tcp", args[0]) },
		Begun: func() { fmt.Println(beganLine) }}
	got := l.Run()
	out := told{Sent: got.Sent, Bad: got.Bad, Late: got.Late.ValueAtQuantile(99)}
	if got.Err != nil {
		out.Error = got.Err.Error()
	}
	return out.print(got.Took)
}

// print writes it to standard output, with the latencies.
func (out told) print(took *hdrhistogram.Histogram) (err error) {
	if out.Latency, err = took.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

// step is the process of the steps: THREADS RATE WARM TIME.
func step(args []string) error {
	threads, err := strconv.Atoi(args[0])
	rate, err2 := strconv.ParseFloat(args[1], 64)
	warm, err3 := time.ParseDuration(args[2])
	run, err4 := time.ParseDuration(args[3])
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	steps := func(d time.Duration) int { return int(d.Seconds() * rate) }
	s := openloop.Step{Threads: threads, Period: time.Duration(float64(time.Second) / rate), Warm: steps(warm),
		Count: max(1, steps(run)),
		Work:  openloop.WorkFor,
		Of:    uintptr(stepWork),
		Begun: func() { fmt.Println(beganLine) }}
	took := openloop.Histogram()
	for _, ns := range slices.Concat(s.Run()...) {
		openloop.Record(took, time.Duration(ns))
	}
	return told{Sent: int(took.TotalCount())}.print(took)
}

// experiment runs everything and writes the report.
func experiment(ctx context.Context, o options) (err error) {
	if err := ready(os.DirFS("/"), os.Getuid()); err != nil {
		return err
	}
	host, err := topology.FromSysfs(os.DirFS("/"))
	if err != nil {
		return err
	}
	l := &lab{warm: o.warm, run: o.run, rate: o.rate, conns: 64, smoke: o.smoke}
	if l.experiment, l.generator, err = split(host); err != nil {
		return err
	}
	cases := strings.Split(o.cases, ",")
	if l.homenode, err = exec.LookPath(o.homenode); err != nil && strings.ContainsAny(o.cases, "TP") {
		return cannot("no program %s: build it (make build), or name it with -homenode, or leave T and P out of -cases",
			o.homenode)
	}
	l.homenode, _ = filepath.Abs(l.homenode)
	if err := enterScope(); err != nil {
		return err
	}
	d := document{Schema: schema, Began: time.Now().UTC().Truncate(time.Second), Seed: o.seed, Machine: describe(host),
		Experiment: l.experiment.String(), Generator: l.generator.String(),
		Command: strings.Join(os.Args, " "), RunSeconds: o.run.Seconds(), WarmSeconds: o.warm.Seconds(), Smoke: o.smoke,
		Skipped: map[string]string{}}
	if b, err := exec.Command(l.homenode, "version").Output(); err == nil {
		d.Machine.Program = strings.TrimSpace(string(b))
	}
	if strings.ContainsAny(o.cases, "TP") {
		// One daemon enforces on a host.
		lock, err := store.LockHost()
		if err != nil {
			return cannot("a homenode daemon enforces on this host already: stop it first (%v)", err)
		}
		lock.Close()
	}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "homenode-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(l.dir)
	if err := os.Chmod(l.dir, 0o755); err != nil { // nginx' workers read it
		return err
	}
	if l.online, err = chooseOnline(o.online, l.dir, l.self, l.experiment.Len()); err != nil {
		return err
	}
	if l.batch, err = chooseBatch(o.batch, l.self, l.experiment.Len(), o.smoke); err != nil {
		return err
	}
	if l.groups, err = makeCgroups(l.experiment, l.generator); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.groups.remove()) }()
	switch {
	case l.rate == 0 && o.online == stepName:
		l.rate = stepRate
	case l.rate == 0:
		if err := l.choose(ctx, 0.27); err != nil {
			return err
		}
	}
	d.Rate = l.rate
	d.Online = *l.online
	d.Batch = *l.batch
	fmt.Printf("%s on CPUs %s with %s; batch work: %s\n", l.online.Name, l.experiment, d.load(), l.batch.Name)
	all := order(cases, o.runs, o.seed)
	for i, id := range all {
		if d.Skipped[id] != "" {
			continue
		}
		s, err := l.measure(ctx, id)
		if not := (errNoScheduler{}); errors.As(err, &not) {
			d.Skipped[id] = not.why
			fmt.Printf("case %s is skipped: %s\n", id, not.why)
			continue
		}
		if err != nil {
			return fmt.Errorf("run %d of %d, case %s: %w", i+1, len(all), id, err)
		}
		d.Samples = append(d.Samples, s)
		fmt.Printf("%d/%d %s: p50 %.0f µs, p99 %.0f µs, CPUs %.0f %% busy, batch %.1f %s a second\n", i+1, len(all), id,
			s.at(50), s.at(99), 100*s.Busy, s.Batch, l.batch.Unit)
	}
	return d.write(o.out)
}
