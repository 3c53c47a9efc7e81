package main

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
)

// Programs die with the thread that has started them (Pdeathsig): that is the first one, which stays.
func init() { runtime.LockOSThread() }

type options struct {
	out, arms, homenode, kernel                   string
	set                                           map[string]Formula
	settled                                       bool // -settle was given
	blocks                                        int
	measure, settle                               time.Duration
	seed                                          uint64
	list, describe, dry, smoke, restore, packages bool
	emulate                                       bool
}

// Kinds of failure, by exit status.
type (
	errUsage  struct{ error } // 2
	errCannot struct{ error } // 3
)

func (e errUsage) Unwrap() error  { return e.error }
func (e errCannot) Unwrap() error { return e.error }

func usage(format string, a ...any) error  { return errUsage{fmt.Errorf(format, a...)} }
func cannot(format string, a ...any) error { return errCannot{fmt.Errorf(format, a...)} }

func main() {
	if done, err := own(os.Args[1:]); done {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	status := 0
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &errUsage{}):
		status = 2
	case errors.As(err, &errCannot{}):
		status = 3
	default:
		status = 1
	}
	fmt.Fprintln(os.Stderr, "seeds:", err)
	os.Exit(status)
}

// flags defines the flags of the command line.
func (o *options) flags(f *flag.FlagSet) {
	f.BoolVar(&o.list, "list", false, "list the experiments, and what is missing here")
	f.BoolVar(&o.describe, "describe", false, "print the source, the published result, and the commands and sizes here")
	f.BoolVar(&o.dry, "dry-run", false, "print what would run, how long it takes, and what is missing; change nothing")
	f.BoolVar(&o.smoke, "smoke", false,
		"run for seconds with tiny sizes: does it work? What cannot run is checked and named")
	f.BoolVar(&o.emulate, "emulate", false,
		"with -smoke: start guests without /dev/kvm, emulated by QEMU; each takes minutes")
	f.BoolVar(&o.restore, "restore", false, "restore what a run that was killed has left, and end")
	f.BoolVar(&o.packages, "packages", false, "print the Debian packages that the experiments need")
	f.StringVar(&o.out, "o", "bench/out/seeds",
		"`FOLDER` for report.md, results.json and what programs print, in one folder for each experiment")
	f.StringVar(&o.arms, "arms", "",
		"`ARMS` such as kernel,homenode, the baseline first (default: those of the file that can be here)")
	f.StringVar(&o.homenode, "homenode", "./homenode", "the `PROGRAM` for the arm homenode")
	f.StringVar(&o.kernel, "kernel", "", "`RELEASE` of the kernel in /boot for guests (default: the host's own)")
	f.IntVar(&o.blocks, "blocks", 0,
		"`BLOCKS`, each with one period of each arm (default: the fewest that can show anything)")
	f.DurationVar(&o.measure, "measure", 0, "measured `TIME` of a period (default: the file's)")
	f.DurationVar(&o.settle, "settle", 0, "`TIME` from the start of servers to the load (default: the file's)")
	o.set = map[string]Formula{}
	f.Func("set", "`SIZE=FORMULA` instead of the file's, in every arm; may be repeated", func(s string) error {
		name, formula, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("want SIZE=FORMULA, such as keys=1000")
		}
		o.set[name] = Formula(formula)
		return nil
	})
	f.Uint64Var(&o.seed, "seed", 0,
		"`NUMBER` that the order of the arms is drawn from (default: a new one for each run; the report has it)")
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	var o options
	f := flag.NewFlagSet("seeds", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	help := func() {
		f.SetOutput(out)
		fmt.Fprint(out,
			"usage: seeds [flags] EXPERIMENT… | all\n\nRepeats published experiments on this machine; docs/seeds.md "+
				"says how.\n\n")
		f.PrintDefaults()
	}
	o.flags(f)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		help()
		return nil
	} else if err != nil {
		return usage("%w (-h shows all flags)", err)
	}
	if o.emulate && !o.smoke {
		return usage("-emulate goes with -smoke: what an emulated guest measures says nothing")
	}
	f.Visit(func(f *flag.Flag) { o.settled = o.settled || f.Name == "settle" })
	names := f.Args()
	if slices.Contains(names, "all") || (len(names) == 0 && (o.list || o.packages)) {
		names = Names()
	}
	var all []*Experiment
	for _, name := range names {
		e, err := Open(name)
		if err == nil {
			err = e.set(o.set)
		}
		if err != nil {
			return usage("%w", err)
		}
		all = append(all, e)
	}
	host, err := topology.FromSysfs(os.DirFS("/"))
	if err != nil {
		return err
	}
	findPrograms()
	switch {
	case o.restore:
		return restoreNow(out)
	case len(all) == 0:
		return usage("no experiment is named; -list shows all")
	case o.packages:
		return printPackages(out, all, o.smoke)
	case o.list:
		return list(out, all, host)
	}
	done, checked := 0, 0
	for _, e := range all {
		var err error
		switch {
		case o.describe:
			err = describe(out, e, host, &o)
		case o.dry:
			err = dryRun(out, e, host, &o)
		default:
			err = one(ctx, out, e, host, &o)
			if not := (errMissing{}); o.smoke && errors.As(err, &not) {
				fmt.Fprintf(out, "%s: not run, only checked: %v\n", e.Name, err)
				err = nil
				checked++
			} else {
				done++
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	if !o.smoke || o.describe || o.dry {
		return nil
	}
	fmt.Fprintf(out, "experiments: %d run, %d only checked\n", done, checked)
	if done == 0 {
		return errors.New("no experiment was run: install what is missing")
	}
	return nil
}

// findPrograms adds folders where Debian puts servers: PostgreSQL's, the newest first, and those of root.
func findPrograms() {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(found)
	path := append(append(found, os.Getenv("PATH")), "/usr/sbin", "/sbin")
	os.Setenv("PATH", strings.Join(path, ":"))
}

func restoreNow(out io.Writer) error {
	if err := lock(stateFile); err != nil {
		return err
	}
	found, err := restoreLeft(stateFile)
	switch {
	case err == nil && found:
		fmt.Fprintln(out, "restored what a run that was killed had left")
	case err == nil:
		fmt.Fprintln(out, "nothing to restore")
	}
	return err
}

// printPackages prints what need.sh is to install; for a smoke run, that of processes.
func printPackages(out io.Writer, all []*Experiment, smoke bool) error {
	var packages []string
	for _, e := range all {
		packages = append(packages, e.Needs.Packages...)
		if !smoke {
			packages = append(packages, slices.Concat(e.Needs.Guests, e.Needs.Pods)...)
		}
	}
	slices.Sort(packages)
	fmt.Fprintln(out, strings.Join(slices.Compact(packages), " "))
	return nil
}

// errMissing is that programs are missing which the user can install.
type errMissing struct{ what []string }

func (e errMissing) Error() string { return strings.Join(e.what, "; ") }

// lacks says which programs are missing here, and how to get them; nil when all are here.
func (e *Experiment) lacks() error {
	var missing errMissing
	var absent []string
	for _, c := range e.Needs.Commands {
		if _, err := exec.LookPath(c); err != nil {
			absent = append(absent, c)
		}
	}
	if len(absent) > 0 {
		missing.what = append(missing.what, fmt.Sprintf("missing: %s; apt-get install %s", strings.Join(absent, ", "),
			strings.Join(e.Needs.Packages, " ")))
	}
	for _, h := range e.Needs.ByHand {
		if _, err := exec.LookPath(h.Command); err != nil && !h.Optional {
			missing.what = append(missing.what, fmt.Sprintf("missing: %s, which Debian does not have: %s", h.Command,
				oneLine(h.From)))
		}
	}
	if missing.what == nil {
		return nil
	}
	return errUsage{missing}
}

// small says why the machine is too small; nil where it is not.
func (e *Experiment) small(h *topology.Host) error {
	cpus, _ := facts(h).Int("cpus", 1)
	memory, _ := facts(h).Int("memory_mib", 1)
	switch {
	case cpus < e.Needs.CPUs:
		return cannot("it needs %d CPUs, and the machine has %d (-smoke runs anyway)", e.Needs.CPUs, cpus)
	case memory < e.Needs.Memory:
		return cannot("it needs %d MiB of memory, and the machine has %d (-smoke runs anyway)", e.Needs.Memory, memory)
	}
	return nil
}

// prepare is everything about a run that is known before it begins: its arms, plan and times.
func (e *Experiment) prepare(h *topology.Host, o *options) (l *lab, skipped map[string]string, err error) {
	l = &lab{e: e, host: h, smoke: o.smoke, prefer: map[Kind]Kind{}, state: &state{file: stateFile}}
	l.emulate, l.kernel = o.emulate, o.kernel
	if path, err := exec.LookPath(o.homenode); err == nil {
		l.homenode, _ = filepath.Abs(path)
	}
	for _, p := range e.Programs {
		l.prefer[p.As], _ = l.kindOf(p.As)
	}
	l.rest = rest
	if o.smoke {
		l.rest = 0
	}
	asked := e.Arms
	if o.arms != "" {
		asked = strings.Split(o.arms, ",")
	}
	skipped = map[string]string{}
	for _, a := range asked {
		if !slices.Contains(e.Arms, a) {
			return nil, nil, usage("-arms: it has no arm %q; its arms: %s", a, strings.Join(e.Arms, ", "))
		}
		why := e.ruleAt(a).possible(h, l.homenode)
		if v := e.variant(a); why == nil && v != nil {
			why = l.lacks(v.Command)
		}
		switch {
		case why != nil && o.arms != "":
			return nil, nil, cannot("arm %s: %w", a, why)
		case why != nil:
			skipped[a] = why.Error()
		default:
			l.plan.Arms = append(l.plan.Arms, trial.Arm(a))
		}
	}
	if len(l.plan.Arms) < 2 {
		return nil, nil, cannot("fewer than two of its arms can be here: %v", skipped)
	}
	metrics := len(slices.DeleteFunc(slices.Clone(e.Metrics), func(m Metric) bool { return !l.has(&m) }))
	l.plan.Seed = cmp.Or(o.seed, 1+rand.Uint64N(1_000_000))
	l.plan.Period, l.plan.Washout = e.Periods.Measure, e.Periods.Settle
	l.plan.Blocks = cmp.Or(o.blocks, e.Periods.Blocks, trial.Least(metrics*(len(l.plan.Arms)-1)))
	if o.smoke {
		l.plan.Period = time.Second
		l.plan.Washout = 0
		l.plan.Blocks = cmp.Or(o.blocks, 1)
	}
	if o.measure != 0 {
		l.plan.Period = o.measure
	}
	if o.settled {
		l.plan.Washout = o.settle
	}
	l.plan.Every = l.plan.Period
	if l.plan.Period < time.Second || l.plan.Washout < 0 || l.plan.Blocks < 1 {
		return nil, nil, usage("-measure: want 1s or more; -settle: 0s or more; -blocks: 1 or more")
	}
	return l, skipped, nil
}

// lacks says that a command of an arm is missing.
func (l *lab) lacks(command string) error {
	if command == "homenode" && l.homenode == "" {
		return ruleOf("homenode").possible(l.host, "")
	}
	if command == "homenode" || command == "" {
		return nil
	}
	if _, err := exec.LookPath(command); err != nil {
		return fmt.Errorf("%s is not installed", command)
	}
	return nil
}

// rest is more than Homenode's daemon takes to start.
const rest = 5 * time.Second

// overhead is what a period takes besides: rest, and programs that start, are filled and end.
const overhead = rest + 10*time.Second

func (l *lab) duration() time.Duration {
	return (l.plan.Duration() + time.Duration(l.plan.Blocks*len(l.plan.Arms))*overhead).Round(time.Minute)
}

func list(out io.Writer, all []*Experiment, h *topology.Host) error {
	for _, e := range all {
		state := "ready"
		if err := cmp.Or(e.lacks(), e.small(h)); err != nil {
			state = err.Error()
		}
		fmt.Fprintf(out, "%-22s %s\n%22s %s\n", e.Name, e.Title, "", state)
	}
	return nil
}

func describe(out io.Writer, e *Experiment, h *topology.Host, o *options) error {
	l, skipped, err := e.prepare(h, o)
	if err != nil {
		return err
	}
	l.state.Dir, l.self = "DIR", "seeds"
	d, err := l.begin(skipped)
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"%s: %s\n\npublished   %s\n            %s\n            on: %s\nrepeated    %s\nneeds       %d CPUs, %d NUMA "+
			"nodes, %d MiB; packages: %s\nhere        %s\n", e.Name, e.Title,
		oneLine(e.Published.Result), e.Published.where(), oneLine(e.Published.Machine), oneLine(e.Repeats),
		e.Needs.CPUs, e.Needs.Nodes, e.Needs.Memory,
		strings.Join(slices.Concat(e.Needs.Packages, e.Needs.Guests, e.Needs.Pods), " "), sizesLine(d.Sizes))
	for _, b := range e.Needs.ByHand {
		fmt.Fprintf(out, "by hand     %s: %s\n", b.Command, oneLine(b.From))
	}
	for _, a := range l.plan.Arms {
		fmt.Fprintf(out, "arm         %s: %s\n", a, d.Arms[string(a)])
	}
	for _, c := range e.Prepare {
		fmt.Fprintf(out, "once        %s\n", oneLine(string(c)))
	}
	for i, c := range d.Commands {
		fmt.Fprintf(out, "%-11s %s\n", e.Programs[i].Name, oneLine(c))
	}
	for _, m := range e.Metrics {
		fmt.Fprintf(out, "metric      %s, %s (%s is better), printed by %s\n", m.Name, m.Unit, m.Better,
			strings.Join(m.Of, ", "))
	}
	return nil
}

func dryRun(out io.Writer, e *Experiment, h *topology.Host, o *options) error {
	l, skipped, err := e.prepare(h, o)
	if err != nil {
		return err
	}
	each := words.Duration(l.plan.Period) + " measured, " + words.Duration(l.plan.Washout) + " to settle"
	fmt.Fprintf(out, "%s: %s of %s, about %s: each %s\n", e.Name, words.Count(l.plan.Blocks, "block"),
		words.Count(len(l.plan.Arms), "arm"), words.Duration(l.duration()), each)
	l.state.Dir, l.self = "DIR", "seeds"
	for _, a := range l.plan.Arms {
		all, err := l.instances(string(a), 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s: %s\n", a, l.e.ruleAt(string(a)).what)
		for _, in := range all {
			where := "anywhere"
			if !in.home.CPUs.Empty() {
				where = "on CPUs " + in.home.CPUs.String()
			}
			if !in.home.Nodes.Empty() {
				where += ", memory of node " + in.home.Nodes.String()
			}
			fmt.Fprintf(out, "    %s %s, %s, %d MiB: %s\n", in.as, in.name, words.Count(in.ask.cpus, "CPU"),
				in.ask.memory, where)
		}
	}
	for _, a := range e.Arms {
		if why, ok := skipped[a]; ok {
			fmt.Fprintf(out, "  %s is left out: %s\n", a, why)
		}
	}
	for _, s := range l.shows() {
		fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(s, "**", ""))
	}
	return cmp.Or(e.lacks(), e.small(h))
}

// one runs one experiment and writes its report.
func one(ctx context.Context, out io.Writer, e *Experiment, h *topology.Host, o *options) (err error) {
	if err := e.lacks(); err != nil {
		return err
	}
	if !o.smoke {
		if err := e.small(h); err != nil {
			return err
		}
	}
	if os.Getuid() != 0 {
		return cannot("it switches settings of the kernel and runs servers as their users: start it as root")
	}
	l, skipped, err := e.prepare(h, o)
	if err != nil {
		return err
	}
	if locked == nil {
		if err := lock(stateFile); err != nil {
			return err
		}
	}
	if left, err := restoreLeft(stateFile); err != nil {
		return fmt.Errorf("restore what an earlier run has left: %w", err)
	} else if left {
		fmt.Fprintln(out, "restored what an earlier run had left")
	}
	folder, err := filepath.Abs(filepath.Join(o.out, e.Name))
	if err != nil {
		return err
	}
	l.raw = filepath.Join(folder, "raw")
	if err := errors.Join(os.RemoveAll(l.raw), os.MkdirAll(l.raw, 0o755)); err != nil {
		return err
	}
	l.state.Run = cryptorand.Text()
	for _, as := range l.prefer {
		if as != Process {
			l.state.In = append(l.state.In, as)
		}
	}
	if l.state.Dir, err = os.MkdirTemp("/var/tmp", ours+"-"); err != nil {
		return err
	}
	// Servers with a user of their own pass through it.
	if err := errors.Join(os.Chmod(l.state.Dir, 0o711), l.state.save()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.state.restore()) }()
	if slices.Contains(l.state.In, Pod) {
		if err := mountPodRoot(); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := keeper(self); err != nil {
		return err
	}
	l.self = filepath.Join(l.state.Dir, "seeds") // where guests and containers see it, too
	if out, err := exec.Command("cp", self, l.self).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", self, err, end(string(out)))
	}
	l.say = func(format string, a ...any) { fmt.Fprintf(out, format+"\n", a...) }
	d, err := l.begin(skipped)
	if err != nil {
		return err
	}
	l.say("%s: %s of %s, about %s", e.Name, words.Count(l.plan.Blocks, "block"), words.Count(len(l.plan.Arms), "arm"),
		words.Duration(l.duration()))
	for _, a := range slices.Sorted(maps.Keys(skipped)) {
		l.say("%s is left out: %s", a, skipped[a])
	}
	for _, why := range l.instead() {
		l.say("%s: %s", e.Name, why)
	}
	var bad error
	err = l.experiment(ctx, func(p period) {
		d.add(p)
		bad = d.write(folder)
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	d.Trial.State, d.Trial.Ended = trial.Done, time.Now().UTC().Truncate(time.Second)
	if err := d.write(folder); err != nil {
		return err
	}
	l.say("%s: done, see %s", e.Name, filepath.Join(folder, "report.md"))
	return nil
}
