package see

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/figures"
	"github.com/homenode/homenode/ui/paper"
	"github.com/homenode/homenode/ui/view"
)

func StatusCommand(e *cli.Env) *cobra.Command {
	var asJSON bool
	var r rows
	var watch, html string
	c := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show every workload, its home, and how local its memory is",
		Long: `Shows the state of the daemon; without a daemon, one scan of the machine.

LOCAL NOW is the share of memory accesses that stay on the node. The hardware
counts it or the kernel samples it (NUMA balancing) where they can; elsewhere it
is expected from residence, the sum over all nodes of (share of CPU time there)
× (share of memory there). BY PLAN is always expected in that way.

With names, --class, --home, --state or --name only the workloads that fit are
shown. --watch shows them again and again, every 2 s or DURATION, until Ctrl-C.

NAME is an ID, a PID, a cgroup, a systemd unit, a container, a guest or a
program; ` + "`homenode explain --help`" + ` has more.`,
		Example: `  homenode status
  homenode status --sort memory --state "would move,queued,moving"
  homenode status --class shared --home 0 --sort local
  homenode status redis.service 4711    # some, by name
  homenode status --all --name 'ssh*'   # the small ones, too
  homenode status --watch 5s
  homenode status --json
  homenode status --html status.html`,
		RunE: func(c *cobra.Command, args []string) error {
			every := time.Duration(0)
			if c.Flags().Changed("watch") {
				// --watch 5s, which flags do not take so
				if k := slices.IndexFunc(args, isPeriod); k >= 0 && watch == defaultWatch {
					watch, args = args[k], slices.Delete(slices.Clone(args), k, k+1)
				}
				var err error
				if every, err = time.ParseDuration(watch); err != nil || every < 100*time.Millisecond ||
					every > time.Hour {
					return cli.Usagef("--watch %q: want 100ms to 1h, such as 5s", watch)
				}
			}
			r.names = args
			if err := r.check(); err != nil {
				return err
			}
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			if every > 0 {
				return watchStatus(c, e, b, done, &r, every, asJSON)
			}
			defer done()
			s, err := b.Status(cli.ContextOf(c))
			if err != nil {
				return err
			}
			if s, err = r.of(cli.ContextOf(c), b, s); err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, s)
			}
			if html != "" {
				page, err := paper.Status(s, cli.HostName(e.Root))
				if err != nil {
					return err
				}
				return cli.WriteMarkup(e, html, page)
			}
			writeStatus(e.Stdout, e.Paint(), s, &r)
			return nil
		},
	}
	r.flags(c)
	c.Flags().StringVar(&watch, "watch", "", "show it again every `DURATION`, "+defaultWatch+
		" when not given, until Ctrl-C")
	c.Flags().Lookup("watch").NoOptDefVal = defaultWatch
	c.Flags().StringVar(&html, "html", "", "write one self-contained page into `FILE` (- is standard output)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-status/3); with --watch a document a line")
	cli.StateDirFlag(c, e)
	c.MarkFlagsMutuallyExclusive("json", "html")
	c.MarkFlagsMutuallyExclusive("watch", "html")
	return c
}

// defaultWatch is as often as the daemon looks by default.
const defaultWatch = "2s"

func isPeriod(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil && strings.ContainsAny(text, "smh") // 5 is a PID
}

// watchStatus shows a status again and again until the user ends it. A daemon that does not
// answer is told in a line and asked again: it may be started anew.
func watchStatus(c *cobra.Command, e *cli.Env, b api.Backend, done func() error, r *rows, every time.Duration,
	asJSON bool) error {
	defer func() { done() }()
	ctx := cli.ContextOf(c)
	var screen *view.Screen
	last, told := "", ""
	for first := true; ; first = false {
		s, err := b.Status(ctx)
		if err == nil {
			s, err = r.of(ctx, b, s)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case screen == nil && !asJSON:
			screen = view.NewScreen(e.Stdout, e.Getenv)
			defer screen.Close()
		}
		switch text := ""; {
		case err != nil && asJSON:
			if text = cli.OneLine(err.Error()); text != told {
				again := words.Duration(every)
				fmt.Fprintf(e.Stderr, "homenode: %s; it is asked again every %s\n", words.Printable(text), again)
			}
			told = text
		case err != nil:
			text = fmt.Sprintf("! %s; it is asked again every %s\n", words.Printable(cli.OneLine(err.Error())),
				words.Duration(every))
			if text != told {
				screen.Show(screen.Over(last, text))
			}
			told = text
		case asJSON:
			told = ""
			enc := json.NewEncoder(view.JSON(view.Raw(e.Stdout)))
			enc.SetEscapeHTML(false)
			enc.Encode(s)
		default:
			told = ""
			last = e.Text(e.Paint(), func(w io.Writer, p view.Paint) { writeStatus(w, p, s, r) })
			screen.Show(last)
		}
		if o, ok := e.Stdout.(*view.Output); ok && o.Err() != nil {
			return o.Err()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		if _, asked := b.(*api.Client); !asked { // it looks once; and a daemon may run by now
			if again, finish, err := cli.Connect(c, e); err == nil {
				done()
				b, done = again, finish
			}
		}
	}
}

func PrintStatus(e *cli.Env, s api.Status) { writeStatus(e.Stdout, e.Paint(), s, &rows{}) }

// writeStatus writes the tables; where only some workloads are asked for, theirs alone.
func writeStatus(w io.Writer, p view.Paint, s api.Status, r *rows) {
	s = view.PlainAll(s)
	fmt.Fprintln(w, headline(s, p))
	if r.some() {
		if len(s.Workloads)+len(s.SmallWorkloads) == 0 {
			fmt.Fprintln(w, "no workload fits")
		} else {
			printWorkloads(w, p, s, r)
		}
		return
	}
	if short := inShort(&s, p); short != "" {
		fmt.Fprintln(w, short)
	}
	nodes := view.NewTable(append([]string{"NODE", "CPUS"}, figures.Columns(figures.Nodes)...)...).
		Names("CPUS").Drops("TRAFFIC", "BOOKED", "VCPUS")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		nodes.Row(append([]string{fmt.Sprint(n.ID), cli.OrDash(n.CPUs)}, cells(p, figures.Nodes, n)...)...)
	}
	nodes.Print(w, p)
	if s.OneNode() {
		fmt.Fprintf(w, "\n%s\n", p.Best(s.OneNodeSays().String()))
		uses := words.Because(words.OneNodeUses).String()
		if p.Width > 0 {
			var b strings.Builder
			p.Wrap(&b, uses, "")
			uses = strings.TrimSuffix(b.String(), "\n")
		}
		fmt.Fprintln(w, uses)
	}
	if len(s.Workloads)+len(s.SmallWorkloads) == 0 && s.OneNode() {
		fmt.Fprintf(w, "%s\n", p.Dim(smaller(s.Small)+" not shown"))
	} else if len(s.Workloads)+len(s.SmallWorkloads) == 0 {
		fmt.Fprintf(w, "\nno workload is large enough to be placed; %s left alone\n", smaller(s.Small))
	} else {
		fmt.Fprintln(w)
		printWorkloads(w, p, s, r)
	}
	if b := s.Partition; b != nil {
		fmt.Fprintf(w, "%s %s; %s\n", p.Dim("partition:"), b.Partition, PartitionWords(*b))
	}
	if s.Sharing != nil {
		fmt.Fprintf(w, "%s %s\n", p.Dim("sharing:"), sharingLine(s.Sharing))
	}
	if s.Caches != nil {
		fmt.Fprintf(w, "%s %s\n", p.Dim("caches:"), cachesLine(s.Caches))
	}
	if !s.OneNode() { // where all is local, how that is known helps nobody
		printSources(w, p, s)
	}
	if s.Balance != nil && !s.OneNode() && s.Mode != "none" { // one scan says nothing about a load
		fmt.Fprintf(w, "%s %s\n", p.Dim("balancing:"), s.Balance.Verdict())
	}
	printDevices(w, p, s.Devices)
	printManagers(w, p, s.Managers)
	var suggested []string
	for _, x := range s.Workloads {
		if l := x.Load; l != nil && l.Importance > 0 && !l.Applied && x.Importance == workload.DefaultImportance &&
			x.Class == workload.Shared {
			suggested = append(suggested, fmt.Sprintf("%s (%s, %d)", cli.Label(x), l.Kind, l.Importance))
		}
	}
	if len(suggested) > 0 {
		fmt.Fprintf(w, "%s %s\n", p.Dim("importance:"), words.Because(words.LoadsSuggested, words.Some(suggested, 3)))
	}
	for _, problem := range s.Problems {
		fmt.Fprintf(w, "%s %s\n", p.Warn("!"), problem)
	}
}

// cells is the figures of one node or workload, those marked that deserve attention.
func cells[T any](p view.Paint, all []figures.Figure[T], of *T) []string {
	var out []string
	for i := range all {
		f := &all[i]
		if f.Column == "" {
			continue
		}
		text := f.Text(of)
		if f.Poor != nil && f.Poor(of) {
			text = p.Warn(text)
		}
		out = append(out, text)
	}
	return out
}

// printSources says in a line by what locality is known, and why by nothing better.
func printSources(w io.Writer, p view.Paint, s api.Status) {
	by := map[workload.Source]int{}
	for _, x := range s.Workloads {
		by[x.LocalityFrom]++
	}
	var parts []string
	for _, x := range s.Sources {
		switch x.Source {
		case workload.Counters, workload.Hints:
			text := fmt.Sprintf("%d by %s", by[x.Source], x.Source)
			if !x.Used {
				text = fmt.Sprintf("no %s (%s)", x.Source, x.Text)
			}
			parts = append(parts, text)
		case workload.MBM:
			if n := by[x.Source]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d by %s", n, x.Source))
			}
		case workload.Residence:
			parts = append(parts, fmt.Sprintf("%d by %s", by[x.Source], x.Source))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "%s %s\n", p.Dim("locality:"), strings.Join(parts, "; "))
	}
	printTypes(w, p, s.Workloads)
}

// printTypes prints the share of each type of memory of all workloads in sum, where one has other memory than DRAM.
func printTypes(w io.Writer, p view.Paint, all []api.Workload) {
	var sum []api.TypeKiB
	add := func(m api.TypeKiB) {
		k := slices.IndexFunc(sum, func(x api.TypeKiB) bool { return x.Type == m.Type && x.Demoted == m.Demoted })
		if k < 0 {
			k = len(sum)
			sum = append(sum, api.TypeKiB{Type: m.Type, Demoted: m.Demoted})
		}
		sum[k].KiB += m.KiB
	}
	apart := false
	for i := range all {
		x := &all[i]
		if len(x.MemoryByType) == 0 {
			add(api.TypeKiB{Type: string(topology.TypeDRAM), KiB: x.MemoryKiB})
			continue
		}
		apart = true
		for _, m := range x.MemoryByType {
			add(m)
		}
	}
	if apart {
		fmt.Fprintf(w, "%s %s\n", p.Dim("memory:"), byType(sum))
	}
}

// printDevices shows where the interrupts of devices go.
func printDevices(w io.Writer, p view.Paint, all []api.Device) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := view.NewTable("DEVICE", "NODE", ">INTERRUPTS", ">AT HOME", ">FIXED", ">TO SET", "STATE").Drops("FIXED",
		"TO SET", "INTERRUPTS")
	for _, d := range all {
		t.Row(d.Name, fmt.Sprint(d.Node), fmt.Sprint(d.Interrupts), fmt.Sprint(d.AtHome), fmt.Sprint(d.Fixed),
			fmt.Sprint(d.Steps),
			strings.TrimSpace(cli.PaintState(p, d.State)+"  "+p.Dim(d.Why)))
	}
	t.Print(w, p)
}

// printManagers names the other programs that place things, and what is theirs.
func printManagers(w io.Writer, p view.Paint, all []api.Manager) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := view.NewTable("ALSO PLACES", "HOW", "LEFT TO IT")
	for _, m := range all {
		t.Row(m.Name, m.Does, cli.OrDash(m.Owns))
	}
	t.Print(w, p)
}

func headline(s api.Status, p view.Paint) string {
	how := map[string]string{
		"observe": "observe mode: nothing is changed",
		"enforce": "enforce mode",
		"none":    "no daemon runs; this is one scan",
	}[s.Mode]
	if s.Trial != nil {
		return p.Bold("homenode "+s.Version) + "  " + how + "\n" + p.Warn(s.Trial.Line())
	}
	if s.Held {
		how += "; everything was undone, `homenode resume --all` goes on"
	}
	return p.Bold("homenode "+s.Version) + "  " + how
}

func printWorkloads(w io.Writer, p view.Paint, s api.Status, r *rows) {
	const beforeHome = 3 // columns
	headings := append([]string{"WORKLOAD", "CLASS"}, figures.Columns(figures.Workloads)...)
	headings = append(slices.Insert(headings, beforeHome, "HOME"), "STATE")
	t := view.NewTable(headings...).Drops("BY PLAN", "VCPUS", "CLASS", "CPU", "MEMORY")
	row := func(x api.Workload, state string) {
		row := append([]string{cli.Label(x), cli.OrDash(string(x.Class))}, cells(p, figures.Workloads, &x)...)
		t.Row(append(slices.Insert(row, beforeHome, cli.OrDash(words.Home(x.Home, x.Caches))), state)...)
	}
	for _, x := range s.Workloads {
		row(x, cli.PaintState(p, cli.StateOf(x)))
	}
	for _, x := range s.SmallWorkloads {
		row(api.Workload{ID: x.ID, Name: x.Name, CPUUse: x.CPUUse, MemoryKiB: x.MemoryKiB}, p.Dim("too small"))
	}
	t.Print(w, p)
	for _, x := range s.Workloads {
		switch {
		case x.State == api.StatePaused:
			fmt.Fprintf(w, "%s %s: %s\n", p.Warn("paused:"), x.ID, strings.TrimPrefix(x.Why, string(x.ID)+" "))
		case x.Move != nil && x.Move.Refused > 0 && x.Move.State != "running":
			fmt.Fprintf(w, "%s %s\n", p.Dim("did not move:"), fmt.Sprintf("%s: %s", x.ID, x.Move.Why))
		}
	}
	if s.Small > 0 && !r.all && !r.some() {
		fmt.Fprintf(w, "%s\n", p.Dim(smaller(s.Small)+" left alone"))
	}
}

func smaller(n int) string {
	if n == 1 {
		return "1 smaller workload is"
	}
	return fmt.Sprintf("%d smaller workloads are", n)
}

// sharingLine is sharing in one line.
func sharingLine(s *api.Sharing) string {
	cpus, given := 0.0, []string{}
	for _, n := range s.Nodes {
		cpus += n.CPUs
		if n.Given != "" {
			given = append(given, n.Given)
		}
	}
	if len(s.Nodes) == 0 {
		return s.Rest
	}
	line := fmt.Sprintf("batch work may keep %.1f CPUs busy now", cpus)
	if g := s.Decides(); g != nil {
		line += fmt.Sprintf(" (%s: %s)", g.ID, g.Text())
	}
	if s.Rest != "" {
		return line + ". " + s.Rest
	}
	line += ", on " + words.CPUs(strings.Join(given, ","))
	if k := len(slices.DeleteFunc(slices.Clone(s.Workloads),
		func(w api.ShareWork) bool { return w.Frozen == nil })); k > 0 {
		line += fmt.Sprintf("; %s frozen", words.Count(k, "workload"))
	}
	if k := len(s.LeftAlone); k > 0 {
		line += fmt.Sprintf("; %s left alone (homenode share status)", words.Count(k, "batch workload"))
	}
	if k := len(slices.DeleteFunc(slices.Clone(s.Important), func(h api.ShareHarm) bool { return !h.Hurt })); k > 0 {
		line += fmt.Sprintf("; %s hurt (homenode share explain)", words.Count(k, "important workload"))
	}
	var signals []string
	for _, x := range s.Signals {
		if x.Used {
			signals = append(signals, string(x.Source))
		}
	}
	const says = " (homenode share status says why)"
	if len(s.Signals) > 0 {
		line += "; signals of harm: " + cmp.Or(strings.Join(signals, ", "), "none here"+says)
	}
	switch k := s.Scheduler; {
	case k == nil:
	case k.Enabled:
		line += "; the scheduler is loaded"
	case k.End != nil && k.End.Kind != share.EndRefused:
		line += "; the kernel ended the scheduler. " + k.Why
	case k.End != nil:
		line += "; no scheduler is loaded. " + k.Why
	default:
		line = strings.TrimSuffix(line, says) + "; no scheduler is loaded" + says
	}
	return line
}

// PartitionWords says what a partition leaves to dedicated work.
func PartitionWords(b api.Partition) string {
	switch {
	case b.Partition == plan.OnlyDedicated:
		return "no shared work on this host"
	case b.Dedicated == "":
		return "no CPU is for dedicated work"
	}
	return fmt.Sprintf("dedicated work has %s alone", words.CPUs(b.Dedicated))
}
