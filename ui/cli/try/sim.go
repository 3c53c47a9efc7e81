package try

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/sim"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// simFlags is the command line of sim, as given.
type simFlags struct {
	host, trace, generate string
	scenario              string
	events, workloads     int
	nodes                 int
	found                 float64
	seed                  uint64
	policy                []string
	period, unit          time.Duration
	asJSON                bool
}

// simHost is the host when none is named: two packages in sub-NUMA mode.
const simHost = "package:2 node:4 core:8 pu:2"

func SimCommand(e *cli.Env) *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use:   "sim",
		Short: "Try policies on a simulated host and workloads",
		Long: `Runs the daemon's own loop, and simple policies to compare it with, on a
simulated host with simulated workloads, and says what memory accesses cost
under each. The same seed gives the same result, byte for byte.

Policies: homenode (the daemon), first-fit, spread and random (the first node
that holds it: the lowest, the emptiest, any), interleave (not confined, memory
over all nodes), none (not confined, memory where it is first touched),
kernel-balancing (the same with Linux's automatic NUMA balancing), numad (that
daemon).

Scenarios are situations in which something should, or should not, be moved; the
policy homes-kept, run only when named, is the daemon without balancing.

The columns:

` + simColumnsHelp() + `
Traces are made up (steady, churn, phases, burst, mixed) or read from a
placement case. The simulator checks every rule; for a broken rule, a leak or a
panic it prints the command that repeats it, and the exit status is 1.`,
		Example: `  homenode sim --generate churn --seed 7
  homenode sim --host "package:2 node:2 core:16 pu:2" --generate mixed \
    --events 5000 --policy homenode,none
  homenode sim --scenario load-shift --nodes 2 --policy homenode,homes-kept,none
  homenode sim --scenario load-shift --policy homenode --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.checkUse(c); err != nil {
				return err
			}
			trace, err := f.read(e)
			if err != nil {
				return err
			}
			if f.period < 100*time.Millisecond || f.period > time.Hour {
				return cli.Usagef("--period %v; want 100ms to 1h", f.period)
			}
			f.policy = once(f.policy)
			bar := view.NewBar(e.Stderr, e.Getenv)
			result, err := e.Sim(c.Context(), sim.Options{Trace: trace, Seed: f.seed, Policies: f.policy,
				Period: f.period, Progress: progress(bar)})
			bar.Clear()
			if err != nil && c.Context().Err() == nil {
				return cli.Usagef("%w", err)
			} else if err != nil {
				return cli.Forbiddenf("sim: stopped before the end")
			}
			return f.print(e, result)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.host, "host", "", "`HOST`: synthetic (\""+simHost+
		"\"), or a file: topology --json, lstopo XML, a capture, a placement case")
	fl.StringVar(&f.trace, "trace", "",
		"run the events of a placement case in `FILE` (- is standard input), on its host unless --host is given")
	fl.StringVar(&f.generate, "generate", "", "make up a trace of `KIND`: "+strings.Join(sim.Kinds, ", "))
	fl.StringVar(&f.scenario, "scenario", "",
		"run the situation `NAME`: "+strings.Join(slices.Concat(sim.Scenarios, sim.Other), ", "))
	fl.IntVar(&f.nodes, "nodes", 4, "`N` nodes of 8 CPUs and 32 GiB for a scenario, 2 to 64")
	fl.IntVar(&f.events, "events", 1000, "make up `N` events")
	fl.IntVar(&f.workloads, "workloads", 0, "make up `N` workloads at once on average (0: as suits the host)")
	fl.Float64Var(&f.found, "found", sim.DefaultFound,
		"`PART` of the workloads that do not ask for a home and are found running, 0 to 1")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of all randomness")
	fl.StringSliceVar(&f.policy, "policy", sim.Policies, "`POLICIES` to run, separated by commas")
	fl.Lookup("policy").DefValue = "all but homes-kept"
	fl.DurationVar(&f.period, "period", 2*time.Second, "`TIME` between two scans of the daemon")
	fl.DurationVar(&f.unit, "unit", 10*time.Second, "`TIME` that 1 of a case's clock stands for")
	fl.BoolVar(&f.asJSON, "json", false, "print JSON (schema homenode-sim/1)")
	c.MarkFlagsMutuallyExclusive("trace", "generate", "scenario")
	c.MarkFlagsMutuallyExclusive("host", "scenario")
	return c
}

// once leaves the first of each name.
func once(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// checkUse refuses a bad --unit, and flags that nothing would come of.
func (f *simFlags) checkUse(c *cobra.Command) error {
	if f.unit <= 0 || f.unit > 24*time.Hour {
		return cli.Usagef("--unit %v; want more than 0, at most 24h", f.unit)
	}
	for _, use := range []struct {
		of    string
		given bool
		flags []string
	}{
		{"generate", f.generate != "", []string{"events", "workloads", "found"}},
		{"scenario", f.scenario != "", []string{"nodes"}},
		{"trace", f.trace != "", []string{"unit"}},
	} {
		for _, name := range use.flags {
			if !use.given && c.Flags().Changed(name) {
				return cli.Usagef("--%s is for --%s", name, use.of)
			}
		}
	}
	return nil
}

// read gets the trace, from a file or made up.
func (f *simFlags) read(e *cli.Env) (*sim.Trace, error) {
	if f.scenario != "" {
		t, err := sim.Scenario(f.scenario, f.nodes, f.seed)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		return t, nil
	}
	if f.trace == "" && f.generate == "" {
		return nil, cli.Usagef("what happens? Give --generate KIND (%s), --scenario NAME or --trace FILE",
			strings.Join(sim.Kinds, ", "))
	}
	host, policy := (*topology.Host)(nil), plan.DefaultPolicy()
	var err error
	if f.host != "" || f.generate != "" {
		if host, policy, err = simHostOf(e, f.host); err != nil {
			return nil, err
		}
	}
	if f.generate != "" {
		if f.events == 0 {
			return nil, cli.Usagef("--events 0; want 2 or more")
		}
		t, err := sim.Generate(sim.Generation{Kind: f.generate, Host: host, Policy: policy, Seed: f.seed,
			Events: f.events, Workloads: f.workloads, Found: f.found})
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		return t, nil
	}
	t, err := cli.FromFile(e, f.trace, func(r io.Reader) (*sim.Trace, error) { return sim.ReadTrace(r, f.unit) })
	if err != nil {
		return nil, err
	}
	if host != nil {
		t.Host, t.Policy = host, policy
	}
	return t, nil
}

// simHostOf is a host made up from its name, or from any kind of file that holds one.
func simHostOf(e *cli.Env, name string) (*topology.Host, plan.Policy, error) {
	policy := plan.DefaultPolicy()
	name = cmp.Or(name, simHost)
	info, err := os.Stat(name)
	switch {
	case err != nil && strings.Contains(name, ":"):
		h, err := cli.TopologySource{Synthetic: name}.Read(e)
		return h, policy, err
	case err != nil:
		return nil, policy, cli.Usagef("--host %q: neither a file nor a synthetic host such as %q", name, simHost)
	case info.IsDir():
		h, err := cli.TopologySource{Root: name}.Read(e)
		return h, policy, err
	}
	defer e.Reading()()
	head, err := readHead(name)
	if err != nil {
		return nil, policy, cli.Usagef("%w", err)
	}
	switch text := bytes.TrimSpace(head); {
	case bytes.HasPrefix(text, []byte("<")):
		h, err := cli.TopologySource{Hwloc: name}.Read(e)
		return h, policy, err
	case !bytes.HasPrefix(text, []byte("{")):
		h, err := cli.TopologySource{Root: name}.Read(e)
		return h, policy, err
	case isCase(name):
		t, err := cli.FromFile(e, name, func(r io.Reader) (*sim.Trace, error) { return sim.ReadTrace(r, time.Second) })
		if err != nil {
			return nil, policy, err
		}
		return t.Host, t.Policy, nil
	}
	h, err := cli.TopologySource{Host: name}.Read(e)
	return h, policy, err
}

// isCase reports whether a JSON file is a placement case: it has events.
func isCase(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var keys struct {
		Events json.RawMessage `json:"events"`
	}
	return json.NewDecoder(f).Decode(&keys) == nil && keys.Events != nil
}

func readHead(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return head[:n], nil
}

// print shows the result, and when something went wrong, how to bring it back.
func (f *simFlags) print(e *cli.Env, r *sim.Result) error {
	if f.asJSON {
		if err := cli.PrintJSON(e.Stdout, r); err != nil {
			return err
		}
	} else {
		printSim(e.Stdout, e.Paint(), r)
	}
	failed := r.Failed()
	if failed == nil {
		return nil
	}
	for _, line := range failed.Log {
		fmt.Fprintf(e.Stderr, "  %s\n", line)
	}
	fmt.Fprintf(e.Stderr, "bring it back with: %s\n", f.command(failed.Policy))
	return cli.Nof("simulation failed: %w", failed)
}

// command is the command line that does the same again, for one policy.
func (f *simFlags) command(policy string) string {
	line := []string{"homenode", "sim"}
	add := func(flag, value string) { line = append(line, "--"+flag, words.Shell(value)) }
	if f.host != "" {
		add("host", f.host)
	}
	if f.trace != "" {
		add("trace", f.trace)
		add("unit", f.unit.String())
	} else if f.scenario != "" {
		add("scenario", f.scenario)
		add("nodes", strconv.Itoa(f.nodes))
	} else {
		add("generate", f.generate)
		add("events", strconv.Itoa(f.events))
		add("workloads", strconv.Itoa(f.workloads))
		add("found", strconv.FormatFloat(f.found, 'g', -1, 64))
	}
	add("seed", strconv.FormatUint(f.seed, 10))
	add("period", f.period.String())
	add("policy", policy)
	return strings.Join(line, " ")
}

func printSim(w io.Writer, p view.Paint, r *sim.Result) {
	from := "SLIT distances"
	if r.Host.Measured {
		from = "measured latencies"
	}
	fmt.Fprintf(w, "%s: %s, seed %d\n", r.Trace, words.Count(r.Events, "event"), r.Seed)
	fmt.Fprintf(w, "%s, %s, %s, %s", words.Count(r.Host.Nodes, "node"), words.Count(r.Host.CPUs, "CPU"),
		cli.KiB(r.Host.MemoryKiB), from)
	if len(r.Policies) > 0 {
		fmt.Fprintf(w, "; %s simulated", words.Duration(time.Duration(r.Policies[0].Seconds)*time.Second))
	}
	fmt.Fprint(w, "\n\n")
	t := view.NewTable("POLICY", ">ACCESS", ">FELT", ">×IDLE", ">LOCAL", ">UTILITY", ">CPU", ">IMBALANCE", ">REFUSED",
		">MOVES", ">MOVED", ">VIOLATIONS").
		Drops("VIOLATIONS", "CPU", "ACCESS", "MOVES", "FELT", "MOVED", "IMBALANCE", "REFUSED", "UTILITY")
	for i := range r.Policies {
		s := &r.Policies[i]
		violations := strconv.Itoa(s.Violations)
		if s.Violations > 0 {
			violations = p.Warn(violations)
		}
		t.Row(s.Policy, fmt.Sprintf("%.1f ns", s.AccessNs), fmt.Sprintf("%.1f ns", s.FeltNs),
			fmt.Sprintf("%.3f", s.Access), fmt.Sprintf("%.1f %%", 100*s.Local),
			fmt.Sprintf("%.1f %%", s.Utility), fmt.Sprintf("%.1f %%", 100*s.CPUServed),
			fmt.Sprintf("%.3f", s.Imbalance),
			fmt.Sprintf("%d of %d", s.Refused, s.Arrivals), strconv.Itoa(s.Moves), cli.KiB(s.MovedBytes>>10),
			violations)
	}
	t.Print(w, p)
	var columns []string
	for _, c := range simColumns {
		columns = append(columns, c[0]+": "+c[1]+".")
	}
	fmt.Fprintln(w, p.Dim(strings.Join(columns, " ")))
}

// simColumns is what the columns are.
var simColumns = [][2]string{
	{"ACCESS", "mean latency of a memory access"}, {"FELT", "the same, with the wait for a CPU"},
	{"×IDLE", "ACCESS compared with local memory on an idle host"},
	{"LOCAL", "accesses that stay on the node"},
	{"UTILITY", "vCPUs that asked, each by the CPU time and the locality it got; a refused one counts 0"},
	{"CPU", "time that online work gets, of what it wants"},
	{"IMBALANCE", "standard deviation over nodes of how busy they are; 0 is even"},
	{"REFUSED", "arrivals that found no home"}, {"MOVES", "workloads that were moved"},
	{"MOVED", "memory that moved with them"}, {"VIOLATIONS", "broken rules, which must be 0"},
}

// simColumnsHelp is one a line.
func simColumnsHelp() string {
	var b strings.Builder
	for _, c := range simColumns {
		fmt.Fprintf(&b, "  %-11s %s\n", c[0], view.Paint{Width: 80}.Hang(c[1], 14))
	}
	return b.String()
}

// progress shows how far each policy is, and how fast.
func progress(bar *view.Bar) func(policy string, done, total int, simulated time.Duration) {
	var now string
	var start time.Time
	return func(policy string, done, total int, simulated time.Duration) {
		if policy != now {
			now, start = policy, time.Now()
		}
		bar.Set(fmt.Sprintf("%-10s ", policy), float64(done)/float64(max(1, total)), func() string {
			took := time.Since(start).Seconds()
			if took <= 0.5 {
				return ""
			}
			return fmt.Sprintf(", %.0f times real time", simulated.Seconds()/took)
		})
	}
}
