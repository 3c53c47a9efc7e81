package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/homenode/homenode/e2e/suite"
)

type options struct {
	run     *regexp.Regexp
	shape   string
	all     bool
	turn    int // which of the tests that take turns run, by its remainder; 0 for all
	verbose bool
	keep    bool
	list    bool
	lanes   int    // guests at a time; 0 by how quick the machine is
	again   int    // so many failed tests are run once more
	accel   string // kvm, tcg, or auto: KVM where it boots the kernel
	// homenode is the package that the binary under test is built from.
	homenode string
	// patience caps the tests' waits: for trying programs that are broken.
	patience time.Duration
	// seeds boot each guest in virtual time once each.
	seeds []int
	// cache takes the place of that of the shapes that have one.
	cache suite.Cache
	// arms are those of the bottle that are counted; nil is all.
	arms []int
	// bottle makes the page of results of counts that were kept, and boots nothing.
	bottle  bool
	shared  bool
	lines   bool // the same for counts of lines that caches take from each other
	machine string
}

func main() {
	var o options
	pattern := flag.String("run", "", "run only the tests whose name matches")
	flag.StringVar(&o.shape, "shape", "", "boot only this guest")
	flag.BoolVar(&o.all, "all", false, "boot the slow guests too")
	flag.IntVar(&o.turn, "turn", 0,
		"of the tests that take turns run one part of four, chosen by this `number` (0: all)")
	flag.BoolVar(&o.verbose, "v", false, "show the tests' log lines")
	flag.BoolVar(&o.keep, "keep", false, "keep the initramfs and print QEMU's command line")
	flag.IntVar(&o.lanes, "lanes", 0,
		"guests at a `time`: one keeps a CPU and a half busy (0: by how quickly a small one boots)")
	flag.IntVar(&o.again, "again", 0,
		"run failed tests once more in a guest of their own, if they are at most so `many`")
	flag.StringVar(&o.accel, "accel", "auto", "kvm, tcg, or auto: KVM where it boots the guests' kernel")
	flag.StringVar(&o.homenode, "homenode", "./cmd/homenode", "`package` of the program under test")
	flag.DurationVar(&o.patience, "patience", 0, "cap on every wait of the tests, for trying broken programs (0: none)")
	flag.BoolVar(&o.list, "list", false, "list the tests and end")
	flag.Func("seeds",
		"boot guests in virtual time and those with modelled caches once for each of these `numbers`, such as 7,7,8: "+
			"another number is another order of events, the same one the same run", func(s string) error {
			for f := range strings.SplitSeq(s, ",") {
				n, err := strconv.Atoi(f)
				if err != nil || n < 1 {
					return fmt.Errorf("%q is no number from 1 on", f)
				}
				o.seeds = append(o.seeds, n)
			}
			return nil
		})
	flag.Func("cache",
		"give guests that have a modelled last-level cache this one: KIB,WAYS,LINE or `KIB,WAYS,LINE,CPUS` that "+
			"share one", func(s string) (err error) {
			o.cache, err = suite.ParseCache(s)
			return err
		})
	flag.Func("arms", "count scenes of the bottle under these `arms` only, such as \"kernel alone,homenode\"",
		func(s string) error {
			for name := range strings.SplitSeq(s, ",") {
				i := slices.Index(suite.BottleArms, name)
				if i < 0 {
					return fmt.Errorf("no arm %q: there are %s", name, strings.Join(suite.BottleArms, ", "))
				}
				o.arms = append(o.arms, i)
			}
			return nil
		})
	flag.BoolVar(&o.bottle, "bottle", false,
		"boot nothing: make the page of results from the files of counts that are named")
	flag.BoolVar(&o.shared, "share", false, "boot nothing: make the page of sharing in virtual time from named files")
	flag.BoolVar(&o.lines, "lines", false,
		"boot nothing: make the page of lines taken from other caches from the files of counts that are named")
	flag.StringVar(&o.machine, "machine", "e2e/machines/xeon-8163.txt",
		"with -bottle: `file` of the latencies and bandwidths that times are modelled with")
	flag.Parse()
	if o.shared {
		if err := sharePage(os.Stdout, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "rig:", err)
			os.Exit(2)
		}
		return
	}
	if o.lines {
		if err := linesPage(os.Stdout, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "rig:", err)
			os.Exit(2)
		}
		return
	}
	if o.bottle {
		if err := bottlePage(os.Stdout, o.machine, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "rig:", err)
			os.Exit(2)
		}
		return
	}
	var err error
	o.run, err = regexp.Compile(*pattern)
	known := slices.Contains([]string{"auto", "kvm", "tcg"}, o.accel)
	if err != nil || flag.NArg() > 0 || o.lanes < 0 || o.turn < 0 || !known {
		fmt.Fprintln(os.Stderr,
			"usage: rig [-run REGEXP] [-shape NAME] [-all] [-turn N] [-v] [-keep] [-list] [-lanes N] [-again N] "+
				"[-accel auto|kvm|tcg] [-homenode PACKAGE] [-patience DURATION] [-seeds N,N] [-cache "+
				"KIB,WAYS,LINE[,CPUS]] [-arms ARM,ARM]\n       rig -bottle [-machine FILE] COUNTS.csv ...\n       "+
				"rig -lines COUNTS.csv ...\n       rig -share MEASURED.csv ...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// work is one guest to boot and the tests expected of it.
type work struct {
	name  string // the shape's, with a number where several guests share its tests
	shape suite.Shape
	tests []suite.Test
}

// weight is how long the tests may take, which is how they compare in what they do take.
func (w work) weight() (sum time.Duration) {
	for _, t := range w.tests {
		sum += t.Limit
	}
	return sum
}

// share spreads a shape's tests over its guests, the longest first, each to the guest
// that has least to do, and what the host judges to where the test before it runs. In each guest
// they keep their order.
func (w work) share() []work {
	parts := make([]work, max(1, min(w.shape.Guests, len(w.tests))))
	if len(parts) == 1 {
		return []work{w}
	}
	guest := map[string]int{}
	for _, t := range slices.SortedStableFunc(slices.Values(w.tests),
		func(a, b suite.Test) int { return cmp.Compare(b.Limit, a.Limit) }) {
		if t.OnHost {
			continue
		}
		least := 0
		for i := range parts {
			if parts[i].weight() < parts[least].weight() {
				least = i
			}
		}
		guest[t.Name] = least
		parts[least].tests = append(parts[least].tests, t)
	}
	for i := range parts {
		parts[i].name = fmt.Sprintf("%s-%d", w.name, i+1)
		parts[i].shape = w.shape
		parts[i].tests = nil
	}
	for _, t := range w.tests {
		p := &parts[guest[cmp.Or(t.After, t.Name)]]
		p.tests = append(p.tests, t)
	}
	return slices.DeleteFunc(parts, func(w work) bool { return len(w.tests) == 0 })
}

// seeded is the work with each of the seeds, spread over its guests.
func (w work) seeded(seeds []int) []work {
	if (!w.shape.Virtual && w.shape.Cache.KiB == 0) || len(seeds) == 0 {
		return w.share()
	}
	var all []work
	for i, seed := range seeds {
		one := w
		one.name, one.shape.Seed = fmt.Sprintf("%s-seed-%d", w.name, i+1), seed
		all = append(all, one.share()...)
	}
	return all
}

func run(ctx context.Context, o options) (bool, error) {
	jobs := choose(o)
	if len(jobs) == 0 {
		return false, errors.New("no test matches")
	}
	if o.list {
		for _, j := range jobs {
			for _, t := range j.tests {
				fmt.Println(j.name, t.Name)
			}
		}
		return true, nil
	}
	start := time.Now()
	root, err := moduleRoot()
	if err != nil {
		return false, err
	}
	tools, err := fetch(ctx, root)
	if err != nil {
		return false, err
	}
	if err := tools.fetchMore(ctx, root, jobs); err != nil {
		return false, err
	}
	if err := tools.fetchModules(ctx, root, jobs); err != nil {
		return false, err
	}
	if err := tools.fetchNumactl(ctx, root, jobs); err != nil {
		return false, err
	}
	out := filepath.Join(root, "e2e", "out")
	image, noHomenode, err := build(ctx, root, out, o.homenode, append(tools.modules, tools.numactl...), jobs)
	if err != nil {
		return false, err
	}
	if !o.keep {
		defer os.Remove(image)
	}
	if tools.accel, err = chooseAccel(ctx, o.accel, tools, image, out); err != nil {
		return false, err
	}
	if o.lanes == 0 && len(jobs) == 1 {
		o.lanes = 1
	}
	if o.lanes == 0 {
		if o.lanes, err = chooseLanes(ctx, tools, image, out); err != nil {
			return false, err
		}
	}
	r := &report{verbose: o.verbose}
	boot := func(ctx context.Context, j work, r *report) error {
		if lacks := tools.lacking(j.shape); lacks != "" {
			for _, t := range j.tests {
				r.add(j, suite.Result{Name: t.Name, Outcome: suite.Skip, Text: lacks})
			}
			return nil
		}
		if j.shape.NIC > 0 && tools.noModules != "" {
			for _, t := range j.tests {
				r.add(j, suite.Result{Name: t.Name, Outcome: suite.Skip, Text: tools.noModules})
			}
			return nil
		}
		with := tools
		if j.shape.Generic {
			with.vmlinux, with.kernel = tools.generic, strings.Replace(tools.kernel, "-cloud", "", 1)
		}
		if v := j.shape.Kernel; v != "" {
			with.vmlinux, with.kernel = tools.kernels[v], v
		}
		image := image
		if j.shape.Init != "" {
			image = aloneImage(out, j.shape.Init)
		}
		g := &guest{work: j, tools: with, image: image, dir: filepath.Join(out, j.name+r.suffix), report: r,
			noHomenode: noHomenode, patience: o.patience}
		return g.run(ctx, o.keep)
	}
	if err := inLanes(ctx, o.lanes, jobs,
		func(ctx context.Context, j work) error { return boot(ctx, j, r) }); err != nil {
		return false, err
	}
	if again := r.failedTests(jobs); len(again) > 0 && len(r.failures) <= o.again {
		second := &report{verbose: true, suffix: "-again"}
		if err := inLanes(ctx, 1, again,
			func(ctx context.Context, j work) error { return boot(ctx, j, second) }); err != nil {
			return false, err
		}
		r.merge(second)
	}
	r.tables(root, out, tools.kernel)
	if o.turn > 0 {
		fmt.Printf("\nNot in turn %d: %s\n", suite.Turn(o.turn), strings.Join(suite.NotInTurn(o.turn), ", "))
	}
	fmt.Printf("\n%.0f s in all, %.0f s of CPU time in guests\n", time.Since(start).Seconds(), r.spent.Seconds())
	r.closing()
	return r.failed == 0, nil
}

// inLanes runs so many guests at a time, the longest first, and two that wait in the place of one.
// An error ends the others.
func inLanes(ctx context.Context, lanes int, jobs []work, one func(context.Context, work) error) error {
	free := semaphore.NewWeighted(int64(2 * lanes))
	all, running := errgroup.WithContext(ctx)
	for _, j := range slices.SortedStableFunc(slices.Values(jobs),
		func(a, b work) int { return cmp.Compare(b.weight(), a.weight()) }) {
		halves := int64(2)
		if j.shape.Waits {
			halves = 1
		}
		if err := free.Acquire(running, halves); err != nil {
			break // another guest's error, which Wait returns
		}
		all.Go(func() error {
			defer free.Release(halves)
			return one(running, j)
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// choose picks the tests of each shape. A test that the host judges needs the
// guest test it judges, and the other way round.
func choose(o options) []work {
	var jobs []work
	named := o.shape != "" || o.run.String() != ""
	for _, s := range suite.Shapes {
		if (o.shape != "" && o.shape != s.Name) || (s.Slow && o.shape == "" && !o.all) {
			continue
		}
		all := suite.ForShape(s.Name)
		wanted := map[string]bool{}
		for _, t := range all {
			if o.turn > 0 && !suite.InTurn(s.Name, t.Name, o.turn) {
				continue
			}
			if o.run.MatchString(t.Name) && (!t.Slow || o.all || named) {
				wanted[t.Name] = true
				if t.OnHost {
					wanted[t.After] = true
				}
			}
		}
		s.Arms = o.arms
		if s.Cache.KiB > 0 && o.cache.KiB > 0 {
			s.Cache = o.cache
		}
		j := work{name: s.Name, shape: s}
		for _, t := range all {
			if wanted[t.Name] || (t.OnHost && wanted[t.After]) {
				j.tests = append(j.tests, t)
			}
		}
		if len(j.tests) > 0 {
			jobs = append(jobs, j.seeded(o.seeds)...)
		}
	}
	return jobs
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "e2e", "fetch.sh")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no e2e/fetch.sh above %s", dir)
		}
	}
}
