package change

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func ShareCommand(e *cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "share",
		Short: "Give idle CPUs to batch work without slowing online work down",
		Long: `Batch work (class batch: a rule in the configuration, or homenode run --class
batch) gets whole cores of each node: as many as online work and the system
leave up to a target; some CPUs always stay idle. It loses them at once when
online work needs them, and runs only when no other work wants the CPU
(cpu.idle). If the kernel has sched_ext, homenode loads a scheduler for batch
work. Off by default; every setting is journalled and restored.

on and off ask the running daemon, and apply until share.enabled in the
configuration changes.`,
		Example: "  homenode share status\n  homenode share on",
		Args:    cobra.NoArgs,
		RunE:    cli.SayWhat,
	}
	c.AddCommand(shareStatusCommand(e), shareExplainCommand(e), shareTurnCommand(e, true), shareTurnCommand(e, false),
		shareUpgradeCommand(e))
	return c
}

func shareTurnCommand(e *cli.Env, on bool) *cobra.Command {
	var asJSON, dryRun bool
	name, short := "off", "Give batch work every CPU that no dedicated work holds"
	if on {
		name, short = "on", "Squeeze batch work into what online work leaves"
	}
	c := &cobra.Command{
		Use: name, Short: short, Example: "  homenode share " + name, Args: cobra.NoArgs,
		Long: short +
			". Asks the running daemon, which acts\nwithin its next scans.\n\nExit status: 3 no daemon runs, or not " +
			"permitted.",
		RunE: func(c *cobra.Command, _ []string) error {
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			source, ok := b.(api.ShareSource)
			if !ok {
				return cli.Forbiddenf("no daemon is running. To turn sharing %s for the next one, write share: "+
					"{enabled: %t} into its configuration", name, on)
			}
			now, err := source.Share(cli.ContextOf(c), api.ShareOrder{On: on, DryRun: dryRun})
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, now)
			}
			line := "sharing is " + name
			if dryRun {
				line = "sharing would be " + name + "; nothing was changed"
			} else if on && now.Mode == "observe" {
				line += "; the daemon is in observe mode and only reports"
			}
			_, err = fmt.Fprintln(e.Stdout, line)
			return err
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-share/1)")
	cli.SocketFlag(c, e)
	return c
}

func shareStatusCommand(e *cli.Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "Show how many CPUs of each node batch work may use", Args: cobra.NoArgs,
		Long: "Shows how many CPUs of each node batch work may use now, and which.\nWithout a daemon this command " +
			"scans once.",
		Example: "  homenode share status",
		RunE: func(c *cobra.Command, _ []string) error {
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			s, err := sharingNow(cli.ContextOf(c), b)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, s)
			}
			writeSharing(e.Stdout, e.Paint(), s)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-share/1)")
	cli.StateDirFlag(c, e)
	return c
}

func shareExplainCommand(e *cli.Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "explain [NAME]", Short: "Explain the CPUs of batch work, and who hurts whom", Args: cobra.MaximumNArgs(1),
		Long: "Explains, for each node and batch workload or for one, its CPUs and limits; and\nfor important work, " +
			"or one, its signals, who hurts it and the action taken.\n\n" + cli.NamesText +
			"\n\nExit status: 1 NAME is neither, or sharing is off.",
		Example: "  homenode share explain\n  homenode share explain encode.service",
		RunE: func(c *cobra.Command, args []string) error {
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			s, err := sharingNow(cli.ContextOf(c), b)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if err := cli.CheckName(args[0]); err != nil {
					return err
				}
				x, err := b.Explain(cli.ContextOf(c), workload.ID(args[0]))
				if err != nil {
					return err
				}
				id := x.Workload.ID
				s.Workloads = slices.DeleteFunc(slices.Clone(s.Workloads),
					func(w api.ShareWork) bool { return w.ID != id })
				s.LeftAlone = slices.DeleteFunc(slices.Clone(s.LeftAlone),
					func(l api.ShareLeft) bool { return l.ID != id })
				s.Important = slices.DeleteFunc(slices.Clone(s.Important),
					func(h api.ShareHarm) bool { return h.ID != id })
				switch {
				case !s.On:
					return cli.Nof("sharing is off; `homenode share on` turns it on")
				case len(s.Workloads)+len(s.LeftAlone)+len(s.Important) == 0:
					return cli.Nof("%s is not squeezed and nothing is squeezed for it: it is neither batch work nor "+
						"important (dedicated, or of tier online or online-strict), or important and left alone; "+
						"`homenode explain %s` says more", id, id)
				}
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, s)
			}
			out := cli.ShortLists{W: e.Stdout}
			if len(args) == 1 {
				explainOne(out, e.Paint(), s)
				return nil
			}
			explainSharing(out, e.Paint(), s)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-share/1)")
	cli.StateDirFlag(c, e)
	return c
}

// sharingNow is what the daemon, or one look, says of sharing.
func sharingNow(ctx context.Context, b api.Backend) (api.Sharing, error) {
	s, err := b.Status(ctx)
	switch {
	case err != nil:
		return api.Sharing{}, err
	case s.Sharing == nil:
		rest := words.Because(words.ShareOff).String()
		if s.Mode == "none" {
			rest = "No daemon is running: one with `share: {enabled: true}` in its configuration shares, or after " +
				"`homenode share on`."
		}
		return api.Sharing{Schema: "homenode-share/1", Mode: s.Mode, Rest: rest, Nodes: []api.ShareNode{},
			Workloads: []api.ShareWork{}, LeftAlone: []api.ShareLeft{}, Important: []api.ShareHarm{},
			Signals: []workload.SourceStatus{}}, nil
	}
	return *s.Sharing, nil
}

func writeSharing(w io.Writer, p view.Paint, s api.Sharing) {
	s = view.PlainAll(s)
	if !s.On {
		fmt.Fprintln(w, "sharing is off. "+s.Rest)
		return
	}
	how := ""
	if s.Mode != "enforce" {
		how = " (nothing is changed in this mode: this is what would be)"
	}
	if s.Use != nil {
		writeGoals(w, p, &s, how)
	} else {
		fmt.Fprintf(w, "sharing is on: up to %.0f %% of the CPUs that no dedicated work holds may be busy%s\n\n",
			100*s.Target, how)
	}
	if s.Lacks != "" {
		fmt.Fprintf(w, "%s\n\n", s.Lacks)
	}
	if len(s.Nodes) == 0 { // turned on just now
		fmt.Fprintln(w, s.Rest)
		return
	}
	nodeTable(w, p, s.Nodes)
	defer schedulerLines(w, p, s.Scheduler)
	defer cacheLine(w, p, s.Cache)
	if s.Rest != "" {
		fmt.Fprintf(w, "\n%s\n", s.Rest)
		writeLeft(w, p, s.LeftAlone)
		writeSignals(w, p, s.Signals)
		return
	}
	fmt.Fprintln(w)
	t := view.NewTable("WORKLOAD", "CPUS", "STATE").Names("CPUS")
	for _, x := range s.Workloads {
		state := "may run"
		switch {
		case x.Frozen != nil:
			state = p.Warn("frozen")
		case x.Asked != nil:
			state = p.Warn("its runtime is asked to stop it")
		case x.Cut != nil:
			state = p.Warn("cut: it hurts " + string(x.For))
		}
		t.Row(string(x.ID), x.CPUs, state)
	}
	t.Print(w, p)
	writeLeft(w, p, s.LeftAlone)
	if len(s.Important) > 0 {
		fmt.Fprintln(w)
		t = view.NewTable("IMPORTANT", "BY", ">NOW", ">USUAL", "STATE").Drops("USUAL")
		for _, x := range s.Important {
			t.Row(string(x.ID), cli.OrDash(string(x.Signal)), signalValue(x.Signal, x.Value),
				signalValue(x.Signal, x.Usual), harmState(p, &x))
		}
		t.Print(w, p)
	}
	writeSignals(w, p, s.Signals)
}

// nodeTable prints the CPUs of each node that batch work may use.
func nodeTable(w io.Writer, p view.Paint, nodes []api.ShareNode) {
	t := view.NewTable("NODE", ">CPUS", ">ONLINE", ">SYSTEM", ">KEPT IDLE", ">BATCH MAY USE",
		"ON CPUS").Names("ON CPUS").Drops("SYSTEM", "KEPT IDLE")
	for _, n := range nodes {
		t.Row(fmt.Sprint(n.Node), fmt.Sprint(n.Pool), fmt.Sprintf("%.2f", n.Online), fmt.Sprintf("%.2f", n.System),
			fmt.Sprint(n.Idle), fmt.Sprintf("%.2f", n.CPUs), cli.OrDash(n.Given))
	}
	t.Print(w, p)
}

// cacheLine tells what batch work has of the caches.
func cacheLine(w io.Writer, p view.Paint, c *api.ShareCache) {
	if c == nil {
		return
	}
	state := "not limited"
	if c.Schemata != "" {
		state = c.Schemata
	}
	fmt.Fprintf(w, "\n%s %s. %s\n", p.Bold("caches and memory bandwidth:"), state, strings.Join(c.Why, " "))
}

// writeLeft names the batch work that sharing changes nothing of, and why.
func writeLeft(w io.Writer, p view.Paint, all []api.ShareLeft) {
	if len(all) > 0 {
		fmt.Fprintf(w, "\n%s\n", p.Dim("batch work that is left alone"))
	}
	for _, x := range all {
		fmt.Fprintf(w, "  %s %s\n", p.Warn(string(x.ID)+":"), x.Why)
	}
}

// signalValue is cycles an instruction, or a share of time.
func signalValue(signal workload.Source, x *float64) string {
	switch {
	case x == nil:
		return "-"
	case signal == workload.CPI:
		return fmt.Sprintf("%.2f", *x)
	}
	return fmt.Sprintf("%.0f %%", 100**x)
}

func harmState(p view.Paint, x *api.ShareHarm) string {
	switch {
	case x.Hurt && x.By != "":
		return p.Warn("hurt, most likely by " + string(x.By))
	case x.Hurt:
		return p.Warn("hurt")
	case x.Signal == "":
		return "unknown: no signal"
	case x.Limit == nil:
		return "learning its baseline"
	}
	return "well"
}

// writeSignals says what tells that somebody is hurt, and what cannot be had here and why.
func writeSignals(w io.Writer, p view.Paint, all []workload.SourceStatus) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.Dim("signals of harm"))
	for _, x := range all {
		used := "yes"
		if !x.Used {
			used = "no"
		}
		fmt.Fprintf(w, "  %-10s  %-3s  %s\n", x.Source, used, p.Dim(x.Text))
	}
}

func explainSharing(w io.Writer, p view.Paint, s api.Sharing) {
	s = view.PlainAll(s)
	if !s.On {
		fmt.Fprintln(w, "sharing is off. "+s.Rest)
		return
	}
	for _, n := range s.Nodes {
		fmt.Fprintf(w, "%s %s\n", p.Bold(fmt.Sprintf("node %d:", n.Node)), strings.Join(n.Why, " "))
	}
	if s.Rest != "" {
		fmt.Fprintln(w, s.Rest)
	}
	explainWorkloads(w, p, s)
}

// explainOne prints the one workload that was asked for, then the nodes that it may run on.
func explainOne(w io.Writer, p view.Paint, s api.Sharing) {
	s = view.PlainAll(s)
	explainWorkloads(w, p, s)
	fmt.Fprintln(w)
	nodeTable(w, p, s.Nodes)
	fmt.Fprintf(w, "\n%s\n", p.Dim("`homenode share explain` has the reasons for each node."))
}

// explainWorkloads prints the reasons for batch and important workloads, each text once.
func explainWorkloads(w io.Writer, p view.Paint, s api.Sharing) {
	var work, left, important sayings
	for _, x := range s.Workloads {
		work.add(x.ID, strings.Join(append([]string{x.Why}, x.Hurts...), " "))
	}
	for _, x := range s.LeftAlone {
		left.add(x.ID, "left alone. "+x.Why)
	}
	for _, x := range s.Important {
		important.add(x.ID, strings.Join(x.Why, " "))
	}
	for _, x := range slices.Concat(work, left, important) {
		fmt.Fprintf(w, "%s %s\n", p.Bold(strings.Join(x.of, ", ")+":"), x.text)
	}
}

// sayings is what is said of workloads, each text once.
type sayings []saying

type saying struct {
	of   []string
	text string
}

func (s *sayings) add(id workload.ID, text string) {
	i := slices.IndexFunc(*s, func(x saying) bool { return x.text == text })
	if i < 0 {
		i, *s = len(*s), append(*s, saying{text: text})
	}
	(*s)[i].of = append((*s)[i].of, string(id))
}
