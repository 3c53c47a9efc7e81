package try

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/paper"
	switchback "github.com/homenode/homenode/ui/trial"
	"github.com/homenode/homenode/ui/view"
)

// trialFlags is the command line of a trial.
type trialFlags struct {
	metrics, queries, files []string
	prometheus, out, share  string
	lower, guards, arms     []string
	plan                    trial.Plan
	reading                 time.Duration
	counters                bool
	dryRun, end, json       bool
}

// defaultTrial is the folder of a trial.
const defaultTrial = "homenode-trial"

func TrialCommand(e *cli.Env) *cobra.Command {
	var f trialFlags
	c := &cobra.Command{
		Use:   "trial [NAME...]",
		Short: "Measure on your own load whether homenode helps: on and off by turns",
		Long: `Runs an experiment on this machine and its own load. Homenode is switched off and
on by turns, in an order drawn from a seed, and the metrics are compared:

  off        everything undone, the kernel alone, kernel.numa_balancing 0
  balancing  everything undone, kernel.numa_balancing 1
  caches     everything undone, the kernel's cache-aware scheduling (Linux 7.2)
  on         homenode as configured

A block has one period of each arm. After each switch a washout passes, at least
until all moves have ended. The result is an effect for each metric with a 95 %
interval, and a verdict: better, worse, or cannot tell.

With NAMEs or patterns (*) only those workloads are switched; else everything is.
A metric is a number that --metric COMMAND prints, that --query asks of
Prometheus, or that --file PATH:REGEX finds in a log or file; each may have a
name before it (p99=COMMAND). Commands run with your rights, never the daemon's.
Higher is better, except for metrics named with --lower. The trial also reads
counters of the host: local accesses, run-queue wait, instructions per cycle,
stalled cycles, PSI.

Everything is restored at the end, on Ctrl-C, when a guard is broken, and by the
daemon when this program no longer runs. The same command goes on with a trial
that was interrupted. The results are in the folder --out: trial.html, trial.md
and trial.json. --dry-run switches nothing, reads the metrics for a while, and
prints how long a trial must run to find an effect of 2, 5 and 10 %.

Exit status: 1 when a guard or an order ended it.`,
		Example: `  homenode trial --metric 'rps=./requests-per-second.sh'
  homenode trial redis --metric 'p99=./p99.sh' --lower p99 --guard p99:30
  homenode trial --prometheus http://db:9090 --query 'qps=rate(queries[1m])'
  homenode trial --file 'ms=/var/log/app.log:took ([0-9]+)' --lower ms
  homenode trial --metric './rps.sh' --dry-run --for 30m
  homenode trial --share trial-for-others.json`,
		RunE: func(c *cobra.Command, args []string) error { return runTrial(c, e, &f, args) },
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.metrics, "metric", nil,
		"`[NAME=]COMMAND` that prints a number, run by sh with your rights; may be repeated")
	fl.StringVar(&f.prometheus, "prometheus", "", "`URL` of the Prometheus that --query asks")
	fl.StringArrayVar(&f.queries, "query", nil, "`[NAME=]PROMQL` with one result; may be repeated")
	fl.StringArrayVar(&f.files, "file", nil,
		"`[NAME=]PATH:REGEX` of a number in a log or file: the first group, or all of the match; may be repeated")
	fl.StringSliceVar(&f.lower, "lower", nil, "`NAMES` of metrics where lower is better")
	fl.StringSliceVar(&f.guards, "guard", nil,
		"`NAME:PERCENT` that a metric may worsen by: beyond it the trial stops and restores everything")
	fl.StringSliceVar(&f.arms, "arms", nil,
		"`ARMS` to compare, the baseline first: off, balancing, caches, on (default all that apply here)")
	fl.IntVar(&f.plan.Blocks, "blocks", 12, "`N` blocks, 6 or more")
	fl.DurationVar(&f.plan.Period, "period", 5*time.Minute, "`DURATION` of the measured part of a period")
	fl.DurationVar(&f.plan.Washout, "washout", 90*time.Second, "least `DURATION` from a switch until measuring begins")
	fl.DurationVar(&f.plan.Every, "every", 10*time.Second, "`DURATION` between two readings")
	fl.Uint64Var(&f.plan.Seed, "seed", 0, "`SEED` of the order of the arms (default drawn)")
	fl.BoolVar(&f.counters, "counters", true, "read counters of the host, too")
	fl.StringVar(&f.out, "out", defaultTrial, "`FOLDER` of the trial and its results")
	fl.BoolVar(&f.dryRun, "dry-run", false, "switch nothing; say how long a trial must run")
	fl.DurationVar(&f.reading, "for", 5*time.Minute, "`DURATION` that --dry-run reads the metrics")
	fl.StringVar(&f.share, "share", "",
		"write the trial in --out without names into `FILE`, to be given to others (- is standard output)")
	fl.BoolVar(&f.end, "end", false, "end the trial that runs, and restore everything")
	fl.BoolVar(&f.json, "json", false, "print JSON (schema homenode-trial/1; with --dry-run homenode-trial-dry-run/1)")
	cli.SocketFlag(c, e)
	c.MarkFlagsMutuallyExclusive("share", "end", "dry-run")
	return c
}

// planned reports whether the command line describes a trial, and not only where one is.
func (f *trialFlags) planned(c *cobra.Command, args []string) bool {
	return len(args) > 0 || slices.ContainsFunc([]string{"metric", "prometheus", "query", "file", "lower", "guard",
		"arms", "blocks", "period", "washout", "every", "seed", "counters"},
		func(name string) bool { return c.Flags().Changed(name) })
}

func runTrial(c *cobra.Command, e *cli.Env, f *trialFlags, args []string) error {
	if f.end {
		return endTrial(c, e)
	}
	if f.share != "" {
		return shareTrial(e, f)
	}
	if c.Flags().Changed("for") && !f.dryRun {
		return cli.Usagef(
			"--for is for --dry-run; how long a trial takes follows from --blocks, --period and --washout")
	}
	want, err := f.document(c, e, args)
	if err != nil {
		return err
	}
	if f.dryRun {
		return dryTrial(c, e, f, want)
	}
	have, err := readTrial(f.out)
	if err != nil {
		return err
	}
	planned := f.planned(c, args)
	switch {
	case have != nil && have.State != trial.Running && planned:
		return cli.Usagef("--out %s has a trial that is over; name another folder with --out, or show it with "+
			"`homenode trial --out %s`", f.out, f.out)
	case have != nil && have.State != trial.Running:
		return showTrial(e, f, have)
	case have != nil && planned && !samePlan(c, have, want):
		return cli.Usagef("--out %s has a trial that is not over and was planned otherwise; go on with `homenode "+
			"trial --out %s`, or name another folder with --out", f.out, f.out)
	}
	client, err := cli.Dial(c, e)
	if errors.Is(err, api.ErrNoDaemon) {
		return cli.Forbiddenf("a trial switches what a daemon has set, and none is running; start one with `homenode " +
			"daemon --mode enforce`")
	}
	if err != nil {
		return err
	}
	defer client.Close()
	client.Waiting = nil
	folder, err := switchback.Open(f.out)
	if err != nil {
		return cli.Forbiddenf("--out: %w", err)
	}
	defer folder.Close()
	seen := have
	if have, err = readTrial(f.out); err != nil { // nobody else changes it from here on
		return err
	}
	if (have == nil) != (seen == nil) || (have != nil && have.State != seen.State) {
		return cli.Usagef("--out %s: another homenode has just changed the trial there; run the command again", f.out)
	}
	if have == nil {
		have = want
	}
	return goOn(c, e, f, client, folder, have, &want.Machine)
}

func readTrial(out string) (*trial.Document, error) {
	d, err := switchback.Read(out)
	switch {
	case errors.Is(err, switchback.ErrOwner), errors.Is(err, fs.ErrPermission):
		return nil, cli.Forbiddenf("--out: %w", err)
	case err != nil:
		return nil, cli.Usagef("--out: %w", err)
	}
	return d, nil
}

// samePlan reports whether a command line describes the trial that a folder has: it may leave out
// a seed, which was drawn.
func samePlan(c *cobra.Command, have, want *trial.Document) bool {
	mine, theirs := *want, *have
	if !c.Flags().Changed("seed") {
		mine.Plan.Seed = theirs.Plan.Seed
	}
	own := func(d *trial.Document) []byte {
		text, _ := json.Marshal([]any{d.Plan, d.Metrics[:d.Asked], d.Guards, d.Workloads, d.Prometheus})
		return text
	}
	return string(own(&mine)) == string(own(&theirs))
}

const (
	balancingFile = "proc/sys/kernel/numa_balancing"
	cachesFile    = hostprep.CacheAware
)

// named splits [NAME=]TEXT.
var namedMetric = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]{0,39})=(.+)$`)
})

// counterNames are the counters that the host has.
var counterNames = []string{"local", "wait", "ipc", "stalled", "psi-cpu", "psi-memory", "psi-io"}

// sources is what the metrics of a trial are read from; counters of this host are added where the
// trial has none yet.
func (f *trialFlags) sources(c *cobra.Command, e *cli.Env, d *trial.Document,
	status func(context.Context) (api.Status, error), fresh bool) ([]switchback.Source, error) {
	counters := &switchback.Counters{Root: e.Root, Status: status, Names: d.Workloads, Now: time.Now, Cycles: e.Cycles}
	var found []trial.Metric
	var theirs []switchback.Source
	if (fresh && f.counters) || (!fresh && len(d.Metrics) > d.Asked) {
		found, theirs = counters.All(cli.ContextOf(c), d.Machine.Nodes)
	}
	if fresh {
		d.Metrics = append(d.Metrics[:d.Asked:d.Asked], found...)
	}
	out := make([]switchback.Source, 0, len(d.Metrics))
	for _, m := range d.Metrics {
		switch m.Kind {
		case trial.Command:
			out = append(out, &switchback.Command{Text: m.From, Within: max(10*time.Second, d.Plan.Period)})
		case trial.Query:
			out = append(out, &switchback.Query{URL: d.Prometheus, Text: m.From})
		case trial.File:
			s, err := fileSource(m.From)
			if err != nil {
				return nil, cli.Usagef("%s: %w", m.Name, err)
			}
			out = append(out, s)
		default:
			i := slices.IndexFunc(found, func(x trial.Metric) bool { return x.Name == m.Name })
			if i < 0 {
				return nil, cli.Forbiddenf("the counter %s of this trial cannot be read any more", m.Name)
			}
			out = append(out, theirs[i])
		}
	}
	for _, g := range d.Guards {
		if !slices.ContainsFunc(d.Metrics, func(m trial.Metric) bool { return m.Name == g.Metric }) {
			return nil, cli.Forbiddenf("--guard %s: this host does not have that counter", g.Metric)
		}
	}
	for i, m := range d.Metrics[:d.Asked] { // a mistake shows now, not after an hour
		if _, _, err := out[i].Read(cli.ContextOf(c)); err != nil {
			if cli.ContextOf(c).Err() != nil {
				return nil, cli.Forbiddenf("interrupted")
			}
			return nil, cli.Forbiddenf("metric %s cannot be read: %w", m.Name, err)
		}
	}
	if len(out) == 0 {
		return nil, cli.Forbiddenf("nothing can be read: give --metric, --query or --file")
	}
	return out, nil
}

// goOn runs a trial from where it is, and writes the results.
func goOn(c *cobra.Command, e *cli.Env, f *trialFlags, client *api.Client, folder *switchback.Folder,
	d *trial.Document, now *trial.Machine) error {
	fresh := d.Began.IsZero()
	status, err := client.Status(cli.ContextOf(c))
	if err != nil {
		return err
	}
	if status.Mode != "enforce" {
		return cli.Forbiddenf("the daemon runs in observe mode and changes nothing, so the arms would not differ; " +
			"start it with --mode enforce")
	}
	sources, err := f.sources(c, e, d, client.Status, fresh)
	if err != nil {
		return err
	}
	boot := bootOf(e)
	if fresh {
		d.Began = time.Now().Round(0)
		d.Name = filepath.Base(f.out) + "-" + d.Began.Format("0102-1504")
		homes := slices.ContainsFunc(status.Workloads, func(w api.Workload) bool { return w.Home != "" })
		if j := status.Self; j != nil && j.Journal == 0 && !homes {
			note := "Homenode had changed nothing of any workload when the trial began: unless that changes, the " +
				"arms off and on do not differ."
			d.Notes = append(d.Notes, note)
			fmt.Fprintf(e.Stderr, "homenode: %s `homenode status` says why\n", note)
		}
		fmt.Fprintf(e.Stderr,
			"homenode: trial %s: %s of %s, %s, about %s. Ctrl-C restores everything; the same command continues it "+
				"later.\n",
			words.Printable(d.Name), words.Count(d.Plan.Blocks, "block"), paper.Arms(d.Plan.Arms),
			words.Count(len(d.Metrics), "metric"),
			words.Span(d.Plan.Duration()))
	} else {
		if note := restarted(d, boot, now); note != "" {
			d.Notes = append(d.Notes, note)
			fmt.Fprintf(e.Stderr, "homenode: %s\n", words.Printable(note))
		}
		fmt.Fprintf(e.Stderr, "homenode: trial %s continues with block %d of %d\n", words.Printable(d.Name),
			d.Blocks()+1, d.Plan.Blocks)
	}
	d.Boot = boot
	if err := folder.Save(d); err != nil {
		return cli.Forbiddenf("--out %w", err)
	}
	bar := view.NewBar(e.Stderr, e.Getenv)
	run := &switchback.Runner{
		Doc: d, Sources: sources, Switch: client.Trial, Save: folder.Save, Lease: trialLease(d),
		Patience: 2 * time.Minute,
		Progress: func(p switchback.Progress) {
			before := fmt.Sprintf("block %d of %d, %s, %s ", p.Block, p.Blocks, cmp.Or(string(p.Arm), "as found"),
				p.Phase)
			bar.Set(before, p.Done, func() string { return "  " + p.Left.Round(time.Second).String() + " left" })
		},
		Fail: func(err error) {
			bar.Clear()
			fmt.Fprintf(e.Stderr, "homenode: %s; its readings are left out\n",
				words.Printable(cli.OneLine(err.Error())))
		},
	}
	err = run.Run(cli.ContextOf(c))
	bar.Clear()
	over := errors.Is(err, switchback.ErrGuard) || errors.Is(err, switchback.ErrOver)
	switch {
	case over:
		d.State, d.Why = trial.Stopped, words.Printable(cli.OneLine(err.Error()))
	case err == nil:
		d.State = trial.Done
	}
	d.Restart()
	if d.State != trial.Running {
		d.Ended = time.Now().Round(0)
	}
	d.Evaluate()
	if saved := writeTrial(folder, d); saved != nil {
		return errors.Join(err, cli.Forbiddenf("--out %w", saved))
	}
	switch {
	case err != nil && cli.ContextOf(c).Err() != nil && !over:
		stands := restoredOr(err, d)
		return cli.Forbiddenf("interrupted after %s; %s, and the same command goes on",
			words.Count(d.Blocks(), "block"), stands)
	case err != nil && !over:
		return err
	}
	if shown := showTrial(e, f, d); shown != nil || !over {
		return shown
	}
	return cli.No(err)
}

// bootOf returns the ID of this boot of the machine; "" unknown.
func bootOf(e *cli.Env) string {
	id, _ := fs.ReadFile(e.Root, "proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// restarted returns a note where the machine was restarted since a trial was last begun or continued; "" where not.
func restarted(d *trial.Document, boot string, now *trial.Machine) string {
	if d.Boot == "" || boot == "" || d.Boot == boot {
		return ""
	}
	note := fmt.Sprintf("The machine was restarted after %s", words.Count(d.Blocks(), "block"))
	if was := d.Machine; was.Kernel != now.Kernel {
		note += fmt.Sprintf(", and runs Linux %s instead of %s since", now.Kernel, was.Kernel)
	}
	return note + "."
}

// restoredOr says what stands after an interruption.
func restoredOr(err error, d *trial.Document) string {
	if errors.Is(err, switchback.ErrNotRestored) {
		const text = "the daemon does not answer, and restores everything at the latest %s after it is back"
		return fmt.Sprintf(text, words.Duration(trialLease(d)))
	}
	return "everything is restored"
}

// trialLease is for how long the daemon keeps an arm without this program.
func trialLease(d *trial.Document) time.Duration {
	return min(time.Minute, max(5*time.Second, 2*d.Plan.Period))
}

// writeTrial writes all results.
func writeTrial(folder *switchback.Folder, d *trial.Document) error {
	page, err := paper.Trial(*d)
	if err != nil {
		return err
	}
	return errors.Join(folder.Save(d), folder.Write("trial.html", []byte(page)),
		folder.Write("trial.md", []byte(paper.TrialMarkdown(d))))
}

// showTrial prints the results.
func showTrial(e *cli.Env, f *trialFlags, d *trial.Document) error {
	if f.json {
		return cli.PrintJSON(e.Stdout, d)
	}
	p := e.Paint()
	say(e, p, words.Printable(paper.TrialHeadline(d)))
	if len(d.Effects) > 0 {
		t := view.NewTable("METRIC", "COMPARED", ">BASE", ">ARM", ">EFFECT", "95 % INTERVAL", "VERDICT")
		for i := range d.Effects {
			x := &d.Effects[i]
			m := paper.MetricOf(d, x.Metric)
			verdict := paper.TrialVerdict(x)
			switch x.Verdict {
			case trial.Better:
				verdict = p.Good(verdict)
			case trial.Worse:
				verdict = p.Warn(verdict)
			}
			t.Row(words.Printable(x.Metric), fmt.Sprintf("%s / %s", x.Arm, x.Base), paper.Value(x.Of, m),
				paper.Value(x.Is, m), paper.Amount(x.Change, x.Scale, m.Unit), paper.Range(x, m.Unit), verdict)
		}
		t.Print(e.Stdout, p)
	}
	fmt.Fprintf(e.Stdout, "%s has trial.html, trial.md and trial.json\n", words.Printable(f.out))
	return nil
}

// say prints a paragraph.
func say(e *cli.Env, p view.Paint, text string) {
	var b strings.Builder
	p.Wrap(&b, text, "")
	fmt.Fprint(e.Stdout, b.String())
}

// dryTrialAnswer is how long a trial must run.
type dryTrialAnswer struct {
	Schema  string     `json:"schema"`  // homenode-trial-dry-run/1
	Plan    trial.Plan `json:"plan"`    // the trial that is planned
	Seconds float64    `json:"seconds"` // how long such a trial takes, s
	// number of readings of each metric that the noise is estimated from; 0 when it is that of the trial in --out
	Readings int             `json:"readings"`
	Outlook  []trial.Outlook `json:"outlook"` // how long a trial must run for each metric
}

// dryTrial estimates the noise and says how long a trial must run. Nothing is switched.
func dryTrial(c *cobra.Command, e *cli.Env, f *trialFlags, d *trial.Document) error {
	out := dryTrialAnswer{Schema: "homenode-trial-dry-run/1", Plan: d.Plan, Seconds: d.Plan.Duration().Seconds(),
		Outlook: []trial.Outlook{}}
	have, err := readTrial(f.out)
	if err != nil {
		return err
	}
	if have != nil && samePlan(c, have, d) && have.Blocks() >= 2 {
		have.Restart()
		have.Evaluate()
		out.Plan, out.Outlook = have.Plan, have.Outlook
	} else if err := dryReadings(c, e, f, d, &out); err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(e.Stdout, out)
	}
	from := fmt.Sprintf("%s of each metric in %s", words.Count(out.Readings, "reading"), words.Lasts(f.reading))
	if out.Readings == 0 {
		from = "the blocks measured so far in " + words.Printable(f.out)
	}
	p := e.Paint()
	say(e, p,
		fmt.Sprintf(
			"Nothing was switched. The trial as planned takes %s: %s of %s, each %s and at least %s of washout.",
			words.Span(out.Plan.Duration()), words.Count(out.Plan.Blocks, "block"),
			words.Count(len(out.Plan.Arms), "period"),
			words.Lasts(out.Plan.Period), words.Lasts(out.Plan.Washout)))
	say(e, p,
		fmt.Sprintf("How many blocks find an effect of 2, 5 or 10 %% in 80 %% of trials, judged by the noise of %s:",
			from))
	t := view.NewTable("METRIC", ">NOISE", "2 %", "5 %", "10 %")
	for _, row := range paper.NeedRows(out.Outlook) {
		t.Row(words.Printable(row.Metric), row.Noise, row.Needs[0], row.Needs[1], row.Needs[2])
	}
	t.Print(e.Stdout, p)
	for _, note := range d.Notes {
		say(e, p, note)
	}
	return nil
}

// dryReadings reads every metric for a while.
func dryReadings(c *cobra.Command, e *cli.Env, f *trialFlags, d *trial.Document, out *dryTrialAnswer) error {
	if f.reading < 12*d.Plan.Every {
		return cli.Usagef("--for %v: want %v or more, 12 readings", f.reading, 12*d.Plan.Every)
	}
	b, done, err := cli.Connect(c, e)
	if err != nil {
		return err
	}
	defer done()
	sources, err := f.sources(c, e, d, b.Status, true)
	if err != nil {
		return err
	}
	ctx := cli.ContextOf(c)
	bar := view.NewBar(e.Stderr, e.Getenv)
	defer bar.Clear()
	began := time.Now()
	readings := make([][]trial.Reading, len(sources))
	for n := 1; time.Since(began) < f.reading; n++ {
		for i, s := range sources {
			x, ok, err := s.Read(ctx)
			if ctx.Err() != nil {
				return cli.Forbiddenf("interrupted")
			}
			if err == nil && ok {
				readings[i] = append(readings[i], trial.Reading{At: time.Since(began).Seconds(), Value: x})
			}
		}
		gone := time.Since(began)
		bar.Set("reading ", gone.Seconds()/f.reading.Seconds(),
			func() string { return "  " + (f.reading - gone).Round(time.Second).String() + " left" })
		n = max(n, int(gone/d.Plan.Every))
		select {
		case <-ctx.Done():
			return cli.Forbiddenf("interrupted")
		case <-time.After(time.Until(began.Add(time.Duration(n+1) * d.Plan.Every))):
		}
	}
	judged := cmp.Or(d.Asked, len(d.Metrics))
	for i := range d.Metrics {
		m := &d.Metrics[i]
		out.Readings = max(out.Readings, len(readings[i]))
		noise, scale, of, ok := trial.Noise(m, readings[i], &d.Plan)
		if !ok {
			d.Notes = append(d.Notes, fmt.Sprintf("%s gave %s: too few to estimate its noise. Read longer, with --for.",
				m.Name, words.Count(len(readings[i]), "reading")))
			continue
		}
		out.Outlook = append(out.Outlook, trial.Outlook{Metric: m.Name, Scale: scale, Noise: noise,
			Needs: trial.Needs(&d.Plan, noise, scale, of, judged*len(d.Plan.Comparisons()))})
	}
	return nil
}

// endTrial ends the trial that runs.
func endTrial(c *cobra.Command, e *cli.Env) error {
	client, err := cli.Dial(c, e)
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := client.Status(cli.ContextOf(c))
	if err != nil {
		return err
	}
	if s.Trial == nil {
		_, err := fmt.Fprintln(e.Stdout, "no trial is running")
		return err
	}
	if _, err := client.Trial(cli.ContextOf(c), api.TrialOrder{Name: s.Trial.Name, End: true}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Stdout, "the trial %s has ended; everything is being restored\n",
		words.Printable(s.Trial.Name))
	return err
}

// shareTrial writes a trial without names.
func shareTrial(e *cli.Env, f *trialFlags) error {
	d, err := readTrial(f.out)
	if err != nil {
		return err
	}
	if d == nil {
		return cli.Nof("no trial in %s", f.out)
	}
	if d.State == trial.Running {
		d.Restart()
		d.Evaluate()
	}
	if f.share == "-" {
		return cli.PrintJSON(e.Stdout, d.Share())
	}
	file, err := os.OpenFile(f.share, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return cli.Forbiddenf("--share: %w", err)
	}
	if err := errors.Join(cli.PrintJSON(file, d.Share()), file.Close()); err != nil {
		return cli.Forbiddenf("--share: %w", err)
	}
	fmt.Fprintf(e.Stdout, "%s has the machine, the plan and the effects, without names; nothing was sent\n",
		words.Printable(f.share))
	return nil
}
