package machine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/heat"
	"github.com/homenode/homenode/ui/view"
)

func ProbeCommand(e *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "probe",
		Short: "Measure this machine: latency, bandwidth, load, caches",
		Long: `Measure this machine. No privilege is needed; nothing is changed. Each number
comes with a 95 % interval; ~ marks an interval wider than 5 %. The result is
stored under the state folder, by a fingerprint of the hardware, and placement
uses it from then on.

The quick profile (the default) takes under 20 s on two nodes; --full takes
minutes. Exit status: 1 when it was cut short, or is worse than before (diff).`,
		Example: "  homenode probe latency\n  homenode probe all --dry-run\n  homenode probe show",
		Args:    cobra.NoArgs,
		RunE:    cli.SayWhat,
	}
	c.PersistentFlags().String("state-dir", e.DefaultState, "`folder` that measurements are kept in")
	c.AddCommand(
		measureCommand(e, "latency", "Idle latency: node to node and CPU to node", measure.PartLatency),
		measureCommand(e, "bandwidth", "Bandwidth: node to node by mix of reads and writes", measure.PartBandwidth),
		measureCommand(e, "loaded", "Latency while other cores load the memory", measure.PartLoaded),
		measureCommand(e, "levels", "Latency by working set, and where caches end", measure.PartLevels),
		measureCommand(e, "c2c", "Core to core: moving a cache line between CPUs", measure.PartC2C),
		measureCommand(e, "all", "All measurements, as far as the budget goes",
			measure.PartLatency, measure.PartPages, measure.PartLevels, measure.PartC2C, measure.PartBandwidth,
			measure.PartLoaded),
		probeShowCommand(e), probeDiffCommand(e), probeExportCommand(e),
	)
	return c
}

// output is how a document is shown; shared by measuring and show.
type output struct {
	json, expand, ascii bool
	svg, html           string
}

func (o *output) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON (schema "+measure.Schema+")")
	f.BoolVar(&o.expand, "expand", false, "one row for each CPU, however many there are")
	f.BoolVar(&o.ascii, "ascii", false, "print ASCII only (default when the locale is not UTF-8)")
	f.StringVar(&o.svg, "svg", "", "draw heat maps and curves into `FILE` (- is standard output)")
	f.StringVar(&o.html, "html", "", "write one self-contained page into `FILE`")
}

// show prints a document; pictures besides.
func (o *output) show(e *cli.Env, d *measure.Document) error {
	if o.html != "" {
		page, err := heat.HTML("homenode probe", d)
		if err == nil {
			err = cli.WriteText(o.html, page)
		}
		if err != nil {
			return err
		}
	}
	if o.svg != "" {
		if err := cli.WriteMarkup(e, o.svg, heat.SVG(d)); err != nil || o.svg == "-" {
			return err
		}
	}
	if o.json {
		return cli.PrintJSON(e.Stdout, d)
	}
	out := bufio.NewWriter(e.Stdout)
	printDocument(out, d, o.style(e), o.expand)
	return out.Flush()
}

func (o *output) style(e *cli.Env) heat.Style {
	p := e.Paint()
	return heat.Style{Colour: p.On, True: strings.Contains(e.Getenv("COLORTERM"), "truecolor") ||
		strings.Contains(e.Getenv("COLORTERM"), "24bit"), ASCII: o.ascii || !view.UTF8(e.Getenv), Width: p.Width}
}

func measureCommand(e *cli.Env, name, short string, parts ...measure.Part) *cobra.Command {
	var o output
	var dryRun, quick, noKeep bool
	req := measure.Request{Parts: parts, CPU: -1, Node: -1, LoadedFrom: -1, LoadedTo: -1}
	var mixes, threads string
	c := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		Example: "  homenode probe " + name + "\n  homenode probe " + name + " --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("mix") {
				req.Mixes = strings.Split(mixes, ",")
				for _, m := range req.Mixes {
					if !slices.Contains(measure.Mixes, m) {
						return cli.Usagef("--mix %q: want some of %s", m, strings.Join(measure.Mixes, ","))
					}
				}
				if name == "loaded" && len(req.Mixes) > 1 {
					return cli.Usagef("--mix %s: want one; a load has one mix", mixes)
				}
			}
			for flag, v := range map[string]string{"--from": req.From, "--pages": req.Pages, "--line-on": req.LineOn} {
				if want := map[string]string{"--from": "cores or nodes", "--pages": "thp, 4k or 1g",
					"--line-on": "first, node or both"}[flag]; v != "" &&
					(v == "or" || !slices.Contains(strings.Fields(strings.ReplaceAll(want, ",", "")), v)) {
					return cli.Usagef("%s %s: want %s", flag, v, want)
				}
			}
			if threads != "" && threads != "auto" {
				n, err := strconv.Atoi(threads)
				if err != nil || n < 1 {
					return cli.Usagef("--threads %s: want auto or a number from 1", threads)
				}
				req.Threads = n
			}
			if err := checkNumbers(c, req); err != nil {
				return err
			}
			if quick && req.Full {
				return cli.Usagef("--quick and --full: want one")
			}
			h, err := topology.FromSysfs(e.Root)
			if err != nil {
				return cli.Forbiddenf("%w", err)
			}
			if err := checkPlaces(c, h, req); err != nil {
				return err
			}
			prober := e.Probe(h, stateDir(c))
			plan, err := measure.MakePlan(h, req, prober.Memory())
			if err != nil {
				return cli.Usagef("%w", err)
			}
			if dryRun {
				return printPlan(e, plan, o.json)
			}
			d := doctor.Gather(e.Root, h)
			if err := runPlan(c.Context(), e, prober, plan, d); err != nil {
				return cli.Forbiddenf("%w", err)
			}
			if !noKeep && !d.Run.Partial {
				keep(e, prober, d)
			}
			diagnosis := doctor.Diagnose(d, doctor.DefaultLimits)
			d.Diagnosis = &diagnosis
			if err := o.show(e, d); err != nil {
				return err
			}
			if !o.json && o.svg != "-" && d.Latency != nil {
				printVerdict(e, &o, diagnosis)
			}
			if d.Run.Partial {
				if !noKeep {
					fmt.Fprintln(e.Stderr,
						"homenode: not kept for placement: the measurement ended early; give it more time (--budget) "+
							"or a quieter machine")
				}
				return cli.ErrNo
			}
			return nil
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "a few CPUs of each node (the default)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be measured and how long it takes")
	c.Flags().BoolVar(&noKeep, "no-save", false, "do not keep the result for placement")
	requestFlags(c.Flags(), name, &req, &mixes, &threads)
	o.flags(c)
	return c
}

// requestFlags is the flags that say what a command of probe measures.
func requestFlags(f *pflag.FlagSet, name string, req *measure.Request, mixes, threads *string) {
	f.BoolVar(&req.Full, "full", false, "every core, every mix, growing thread counts")
	f.StringVar(&req.Pages, "pages", "", "thp (default), 4k or 1g")
	f.DurationVar(&req.Budget, "budget", 0, "leave out detail so that it takes about so long")
	f.BoolVar(&req.BusyOK, "busy-ok", false, "measure although the machine is busy")
	f.IntVar(&req.Nice, "nice", 0, "run at this `LEVEL` of nice(1); below 0 needs a privilege")
	f.Uint64Var(&req.Seed, "seed", 1, "`NUMBER` for the random order of cells and pages")
	switch name {
	case "latency", "levels", "loaded", "all":
		f.BoolVar(&req.RT, "rt", false, rtUsage)
	}
	switch name {
	case "latency", "all":
		f.BoolVar(&req.MSR, "msr", false,
			"also measure with the prefetchers of one CPU switched off for some seconds; needs root and /dev/cpu/*/msr")
	}
	switch name {
	case "latency":
		f.StringVar(&req.From, "from", "", "cores or nodes; default both, some cores")
	case "bandwidth":
		f.StringVar(mixes, "mix", "", "`LIST` of "+strings.Join(measure.Mixes, ","))
		f.StringVar(threads, "threads", "auto", "`NUMBER` of threads on each node; auto is one a core")
	case "loaded":
		f.IntVar(&req.LoadedFrom, "from", -1, "`NODE` whose CPUs load and read; default each")
		f.IntVar(&req.LoadedTo, "to", -1, "`NODE` whose memory is loaded; default the same")
		f.StringVar(mixes, "mix", "", "mix of the load; default r")
		f.IntVar(&req.Points, "points", 15, "points of the curve")
	case "levels":
		f.IntVar(&req.CPU, "core", -1, "`CPU` to read from; default one of the first node")
		f.IntVar(&req.Node, "node", -1, "`NODE` to read; default the first")
	case "c2c":
		f.StringVar(&req.LineOn, "line-on", "", "where the line lies: first, node (of one of the two), both")
	}
}

const rtUsage = "take latency samples under SCHED_FIFO, each some milliseconds long and watched from another CPU; " +
	"needs root or an rtprio limit"

// mostPoints of a loaded curve: its pauses are three decades apart, and more
// would be the same ones again.
const mostPoints = 100

// checkNumbers refuses what no machine could measure.
func checkNumbers(c *cobra.Command, req measure.Request) error {
	switch {
	case req.Budget < 0:
		return cli.Usagef("--budget %v: want a time over 0, such as 60s; 0 is no budget", req.Budget)
	case req.Nice < -20 || req.Nice > 19: // setpriority(2)
		return cli.Usagef("--nice %d: want -20 to 19", req.Nice)
	case c.Flags().Changed("points") && (req.Points < 3 || req.Points > mostPoints):
		return cli.Usagef("--points %d: want 3 to %d", req.Points, mostPoints)
	}
	return nil
}

// checkPlaces refuses nodes, CPUs and numbers of threads that the host lacks.
func checkPlaces(c *cobra.Command, h *topology.Host, req measure.Request) error {
	var nodes []string
	most := 0
	for _, n := range h.Nodes {
		nodes = append(nodes, strconv.Itoa(int(n.ID)))
		most = max(most, n.CPUs.Intersect(h.Allowed).Len())
	}
	flags := []struct {
		name string
		node int
	}{{"node", req.Node}}
	if len(req.Parts) == 1 && req.Parts[0] == measure.PartLoaded { // elsewhere --from is a word
		flags = append(flags, struct {
			name string
			node int
		}{"from", req.LoadedFrom}, struct {
			name string
			node int
		}{"to", req.LoadedTo})
	}
	for _, f := range flags {
		if c.Flags().Changed(f.name) && !slices.Contains(nodes, strconv.Itoa(f.node)) {
			return cli.Usagef("--%s %d: there is no such node; want one of %s", f.name, f.node,
				strings.Join(nodes, ", "))
		}
	}
	switch {
	case c.Flags().Changed("core") && (req.CPU < 0 || !h.Allowed.Has(topology.CPUID(req.CPU))):
		return cli.Usagef("--core %d: this process may use CPUs %s", req.CPU, h.Allowed)
	case req.Threads > most:
		return cli.Usagef("--threads %d: want auto or 1 to %d, the CPUs of a node that this process may use",
			req.Threads, most)
	}
	return nil
}

// runPlan measures with a bar on standard error, if that is a terminal.
func runPlan(ctx context.Context, e *cli.Env, prober cli.Prober, plan measure.Plan, d *measure.Document) error {
	bar, start := view.NewBar(e.Stderr, e.Getenv), time.Now()
	err := prober.Run(ctx, plan, d, func(done float64) {
		bar.Set("", done, func() string {
			return "  " + left(time.Since(start).Seconds(), done, plan.Seconds) +
				" left "
		})
	})
	bar.Clear()
	if d.Run != nil {
		d.Run.Tool = e.Version
	}
	return err
}

// keep stores a measurement for placement; failing to is a note, no error.
func keep(e *cli.Env, prober cli.Prober, d *measure.Document) {
	older, err := prober.Cached(d.Host.Fingerprint)
	if err != nil {
		fmt.Fprintf(e.Stderr, "homenode: the older measurement is set aside: %v\n", err)
	}
	if _, err := prober.Keep(measure.Merge(older, d)); err != nil {
		fmt.Fprintf(e.Stderr, "homenode: not kept for placement: %v\n", err)
	}
}

// Schemas of what `probe diff --json` and `probe all --dry-run --json` print.
const (
	diffSchema = "homenode-measure-diff/1"
	planSchema = "homenode-measure-plan/1"
)

// measurePlan is what a measurement would do: `probe all --dry-run --json`.
type measurePlan struct {
	Schema string `json:"schema"`
	measure.Plan
}

// measureDiff is how two measurements differ: `probe diff --json`.
type measureDiff struct {
	Schema  string           `json:"schema"`
	Changes []measure.Change `json:"changes"` // numbers that both files have
}

func printPlan(e *cli.Env, p measure.Plan, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(e.Stdout, measurePlan{planSchema, p})
	}
	fmt.Fprintf(e.Stdout, "%s profile, about %.0f s\n", p.Profile, math.Ceil(p.Seconds))
	for _, s := range p.Steps {
		fmt.Fprintf(e.Stdout, "  %5.1f s  %s\n", max(0.1, s.Seconds), s.Says)
	}
	for i := 0; i < len(p.Buffers); {
		size, on := p.Buffers[i].Bytes, topology.NodeSet{}
		for ; i < len(p.Buffers) && p.Buffers[i].Bytes == size; i++ {
			on.Add(topology.NodeID(p.Buffers[i].Node))
		}
		each := ""
		if on.Len() > 1 {
			each = "each of "
		}
		fmt.Fprintf(e.Stdout, "  a buffer of %s on %s%s\n", words.Bytes(size), each, words.Nodes(on))
	}
	for _, n := range p.Notes {
		fmt.Fprintf(e.Stdout, "  %s\n", n)
	}
	return nil
}

// left trusts the plan at first and the clock more and more.
func left(passed, done, guess float64) string {
	s := guess * (1 - done)
	if done > 0.02 {
		s = (1-done)*s + done*passed*(1-done)/done
	}
	return (time.Duration(math.Ceil(s)) * time.Second).String()
}

func stateDir(c *cobra.Command) string {
	dir, _ := c.Flags().GetString("state-dir")
	return dir
}

// document reads FILE, or what is kept for this machine.
func document(c *cobra.Command, e *cli.Env, args []string) (*measure.Document, error) {
	if len(args) > 0 {
		return readDocument(e, args[0])
	}
	h, err := topology.FromSysfs(e.Root)
	if err != nil {
		return nil, cli.Forbiddenf("%w", err)
	}
	d, err := e.Probe(h, stateDir(c)).Cached(measure.Fingerprint(e.Root, h))
	if err != nil {
		return nil, cli.Forbiddenf("%w", err)
	}
	if d == nil {
		return nil, cli.Forbiddenf("this machine was not measured yet; run `homenode probe all`")
	}
	return d, nil
}

func readDocument(e *cli.Env, name string) (*measure.Document, error) {
	return cli.FromFile(e, name, func(in io.Reader) (*measure.Document, error) {
		whole, err := unbundle(in)
		if err != nil {
			return nil, err
		}
		return measure.Read(whole)
	})
}

func probeShowCommand(e *cli.Env) *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "show [FILE]", Short: "Show a measurement: heat maps and curves",
		Long:    "Shows FILE, written by probe --json, or the stored measurement of this machine.",
		Example: "  homenode probe show\n  homenode probe show machine.json --html machine.html",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := document(c, e, args)
			if err != nil {
				return err
			}
			return o.show(e, d)
		},
	}
	o.flags(c)
	return c
}

func probeDiffCommand(e *cli.Env) *cobra.Command {
	var asJSON, all bool
	var threshold float64
	c := &cobra.Command{
		Use: "diff BEFORE [AFTER]", Short: "Compare two measurements; exit status 1 when something got worse",
		Long: `Compares BEFORE with AFTER, or with the stored measurement of this machine. A
change counts when the intervals do not touch and it is over the threshold.`,
		Example: `  homenode probe latency --quick --json > before.json
  homenode probe latency --quick --json > after.json
  homenode probe diff before.json after.json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cc *cobra.Command, args []string) error {
			if !(threshold >= 0 && threshold <= 1e6) { // NaN is neither
				return cli.Usagef("--threshold %v: want a percentage from 0", threshold)
			}
			a, err := readDocument(e, args[0])
			if err != nil {
				return err
			}
			b, err := document(cc, e, args[1:])
			if err != nil {
				return err
			}
			changes := measure.Diff(a, b, threshold/100)
			worse := 0
			t := view.NewTable("NUMBER", ">BEFORE", ">AFTER", ">CHANGE", "")
			for _, c := range changes {
				word := ""
				if c.Worse {
					word = "worse"
					worse++
				} else if c.Sure && math.Abs(c.Relative) > threshold/100 {
					word = "better"
				} else if !c.Sure {
					word = "noise"
				}
				shown := word
				switch word {
				case "worse":
					shown = e.Paint().Warn(word)
				case "better":
					shown = e.Paint().Good(word)
				}
				if all || word == "worse" || word == "better" {
					what, unit, _ := cutLast(c.What, ", ")
					t.Row(what, withUnit(c.Before, unit), withUnit(c.After, unit),
						fmt.Sprintf("%+.1f %%", 100*c.Relative), shown)
				}
			}
			if asJSON {
				if changes == nil {
					changes = []measure.Change{}
				}
				if err := cli.PrintJSON(e.Stdout, measureDiff{diffSchema, changes}); err != nil {
					return err
				}
			} else {
				if t.Len() > 0 {
					t.Print(e.Stdout, e.Paint())
				}
				fmt.Fprintf(e.Stdout, "%s compared, %d worse by more than %g %%\n", words.Count(len(changes), "number"),
					worse, threshold)
			}
			if len(changes) == 0 {
				return cli.Forbiddenf("the two measurements have no number in common")
			}
			if worse > 0 {
				return cli.ErrNo
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema "+diffSchema+")")
	c.Flags().BoolVar(&all, "all", false, "also what did not change")
	c.Flags().Float64Var(&threshold, "threshold", 5, "`PERCENT` from which a change counts")
	return c
}

// cutLast cuts text around the last sep.
func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// withUnit is a value of a change with its unit; bandwidth is in GB/s.
func withUnit(v measure.Value, unit string) string {
	if unit == "MB/s" {
		v, unit = v/1000, "GB/s"
	}
	return fmt.Sprintf("%.1f %s", float64(v), unit)
}

func probeExportCommand(e *cli.Env) *cobra.Command {
	var format string
	c := &cobra.Command{
		Use: "export [FILE]", Short: "Write the latency matrix for other tools",
		Long: `Writes the node to node matrix of FILE, or of the stored measurement:
  numactl   relative distances, local 10, as numactl --hardware prints them
  hwloc     a file for hwloc-annotate --ri IN.xml OUT.xml root distances FILE
  csv       from,to,latency_ns,low,high,read_mb_s`,
		Example: "  homenode probe export --format csv",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := document(c, e, args)
			if err != nil {
				return err
			}
			t := d.ByNode()
			if t == nil {
				return cli.Forbiddenf("there is no latency matrix in it; run `homenode probe latency`")
			}
			out := bufio.NewWriter(view.Raw(e.Stdout))
			if err := export(out, d, t, format); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	c.Flags().StringVar(&format, "format", "numactl", "numactl, hwloc or csv")
	return c
}
