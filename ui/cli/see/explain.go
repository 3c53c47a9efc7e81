package see

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func ExplainCommand(e *cli.Env) *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say why a workload is where it is, or why it was not moved",
		Long: `Shows the place of one workload, the reasons, the candidate nodes, past changes
and the remaining steps.

` + cli.NamesText + `

device:NAME, the name of a NIC or an NVMe drive or its PCI address, says where
its interrupts go.`,
		Example: "  homenode status                       # lists the IDs\n  homenode explain redis.service\n  " +
			"homenode explain 4711                 # the workload of a process\n  homenode explain device:eth0",
		Args: cli.OneWorkload(e),
		RunE: func(c *cobra.Command, args []string) error {
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			x, err := b.Explain(cli.ContextOf(c), workload.ID(args[0]))
			if refused := (*api.Error)(nil); errors.As(err, &refused) &&
				strings.Contains(refused.Text, words.SmallerText) && !asJSON {
				_, err := fmt.Fprintf(e.Stdout,
					"%s.\nIt is placed once it holds manage.min_memory or uses manage.min_cpu; `homenode config "+
						"show` has both.\n", words.Printable(refused.Text))
				return err
			}
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, x)
			}
			most := ShownCandidates
			if all {
				most = len(x.Decision.Candidates)
			}
			if text := through(args[0], x); text != "" {
				fmt.Fprintln(e.Stdout, text)
			}
			if all {
				printExplanation(e.Stdout, e.Paint(), x, most)
			} else {
				printShortened(e.Stdout, e.Paint(), x, most)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-explain/3)")
	c.Flags().BoolVar(&all, "all", false, "all nodes that were weighed, not only the best eight, and whole CPU lists")
	cli.StateDirFlag(c, e)
	return c
}

// through says with whom a process is placed that was asked for and is not the workload itself.
func through(asked string, x api.Explanation) string {
	pid, isPID := workload.PIDOf(asked)
	if id := x.Workload.ID; isPID && x.Device == nil && id != workload.ID(asked) &&
		id != workload.ID(fmt.Sprint("pid:", pid)) {
		return fmt.Sprintf("Process %d belongs to %s and is placed with it.\n", pid,
			words.Printable(cli.Label(x.Workload)))
	}
	return ""
}

// printDevice says where the interrupts and queues of a device go.
func printDevice(w io.Writer, p view.Paint, d *api.DeviceDetail) {
	fmt.Fprintf(w, "%s  %s %s on node %d, %s", p.Bold(string(d.ID)), d.Kind, d.PCI, d.Node,
		words.Count(d.Interrupts, "interrupt"))
	if d.MostQueues > 0 {
		fmt.Fprintf(w, ", %d of %d queues", d.Queues, d.MostQueues)
	}
	fmt.Fprintf(w, "\n  may go to  %s of node %d", words.CPUs(cli.OrDash(d.Allowed)), d.Node)
	if d.Avoided != "" {
		fmt.Fprintf(w, "; %s are dedicated", d.Avoided)
	}
	fmt.Fprintf(w, "\n  state      %s\n", cli.PaintState(p, d.State))
	if d.Why != "" {
		fmt.Fprintf(w, "  why        %s\n", d.Why)
	}
	fmt.Fprintln(w)
	t := view.NewTable("SETTING", "NAME", "NOW", "BY PLAN", "WHY").Drops("NAME")
	for _, s := range d.Settings {
		t.Row(s.Path, s.Name, cli.OrDash(s.Now), cli.OrDash(s.To), p.Dim(s.Why))
	}
	t.Print(w, p)
	var users []string
	for _, u := range d.Users {
		home := "no home"
		if u.Home != "" {
			home = "home " + words.Nodes(u.Home)
		}
		users = append(users, fmt.Sprintf("%s, %s: %s", u.Workload, home, u.How))
	}
	Section(w, p, "used by", users)
}

// printShortened is printExplanation with shortened CPU lists. Events come folded, so their lists are
// shortened before.
func printShortened(w io.Writer, p view.Paint, x api.Explanation, candidates int) {
	x.Events = slices.Clone(x.Events)
	for i := range x.Events {
		x.Events[i].Text = cli.Shortened(x.Events[i].Text)
	}
	printExplanation(cli.ShortLists{W: w}, p, x, candidates)
}

func printExplanation(w io.Writer, p view.Paint, x api.Explanation, candidates int) {
	x = view.PlainAll(x)
	if x.Device != nil {
		printDevice(w, p, x.Device)
		printJournal(w, p, x)
		printPast(w, p, x)
		return
	}
	wl := x.Workload
	name, what := cli.Label(wl), fmt.Sprintf("%s, %s, %.2f CPUs busy, %s", wl.Class, words.Count(wl.CPUs, "vCPU"),
		wl.CPUUse, cli.KiB(wl.MemoryKiB))
	between := "  "
	if p.Width > 0 && ansi.StringWidth(name+between+what) > p.Width { // the name in one piece
		between = "\n  "
	}
	fmt.Fprintln(w, p.Bold(name)+between+what)
	fmt.Fprintf(w, "  now    %s; memory %s; locality %s%s\n", words.CPUs(cli.OrDash(wl.CPUSet)),
		byNode(wl.MemoryByNode, wl.MemoryKiB), cli.Percent(wl.Locality), from(wl))
	if text := byType(wl.MemoryByType); text != "" {
		fmt.Fprintf(w, "  types  %s\n", text)
	}
	printKernel(w, wl)
	if wl.Home != "" {
		fmt.Fprintf(w, "  plan   %s, %s; locality %s\n", words.HomeNodes(wl.Home, wl.Caches),
			words.CPUs(wl.CPUSetPlanned), cli.Percent(wl.LocalityExpected))
	}
	fmt.Fprintf(w, "  state  %s\n", cli.PaintState(p, cli.StateOf(wl)))
	printNear(w, p, wl)
	why := words.Sentences(x.Decision.Reasons)
	if wl.State == api.StateHeld && wl.Why != "" { // the reasons are of its home, not of the hold
		why = append([]string{wl.Why}, why...)
	}
	Section(w, p, "why", why)
	PrintShortages(w, x.Decision.Shortages)
	Section(w, p, "sharing", x.Sharing)
	printBalancing(w, p, x)
	PrintCandidates(w, p, x.Decision.Candidates, candidates)
	printDistances(w, x.Decision.Distances)
	var steps []string
	for _, s := range wl.Steps {
		steps = append(steps, fmt.Sprintf("%s: %s → %s. %s", s.Kind, words.OrAll(s.From), s.To, s.Reason))
	}
	Section(w, p, "steps left", steps)
	printJournal(w, p, x)
	if m := x.Move; m != nil {
		line := fmt.Sprintf("%s of %s to %s in %.1f s, %s", cli.KiB(m.Moved/1024), cli.KiB(m.Planned/1024),
			words.Nodes(m.Home), m.Seconds, m.State)
		if m.Refused > 0 || m.Why != "" {
			line += fmt.Sprintf("; %s refused: %s", cli.KiB(m.Refused/1024), m.Why)
		}
		if m.LocalityBefore != nil && m.LocalityAfter != nil {
			line += fmt.Sprintf("; locality %.0f %% before, %.0f %% after", 100**m.LocalityBefore, 100**m.LocalityAfter)
		}
		Section(w, p, "newest move", []string{line})
	}
	printPast(w, p, x)
}

// printNear is what a workload is near to, configured or learned.
func printNear(w io.Writer, p view.Paint, wl api.Workload) {
	for _, name := range wl.Near {
		fmt.Fprintf(w, "  near   %s (configured)\n", name)
	}
	for _, l := range wl.Links {
		line := l.Name
		if l.Nodes != "" {
			line += " on node " + l.Nodes
		}
		line += " (learned: " + l.Evidence
		if l.MiBs != nil {
			line += fmt.Sprintf("; %.1f MiB/s", *l.MiBs)
		}
		switch {
		case l.Weight > 0:
			line += fmt.Sprintf("; weight %.2f)", l.Weight)
		case l.Follows:
			line += "; it comes here)"
		case l.Kind == workload.ByGPU && l.Why != "":
			line += ")"
		default:
			line += "; " + p.Dim("does not count") + ")"
		}
		fmt.Fprintf(w, "  near   %s\n", line)
		if len(l.Nearest) > 0 {
			fmt.Fprintf(w, "         nearest NICs: %s\n", strings.Join(l.Nearest, ", "))
		}
		if l.PID == 0 && l.Why != "" {
			fmt.Fprintf(w, "         %s\n", l.Why)
		}
	}
	if v := wl.Vhost; v != nil {
		fmt.Fprintf(w, "  vhost  %s, %.2f CPUs, on node %s, may use CPUs %s, as its emulator\n",
			words.Count(float64(v.Threads), "thread"), v.CPUUse, v.Nodes, v.CPUs)
	}
	if wl.Load != nil {
		Section(w, p, "kind of load", []string{wl.Load.Why})
	}
	if wl.Serves != nil {
		Section(w, p, "works for others", []string{wl.Serves.Why})
	}
}

// printJournal is what was changed and can be restored.
func printJournal(w io.Writer, p view.Paint, x api.Explanation) {
	var changed []string
	for _, j := range x.Journal {
		changed = append(changed, fmt.Sprintf("%s of %s: %s → %s (%s)", j.Kind, j.Path, words.OrAll(j.Old), j.New,
			j.State))
	}
	Section(w, p, "changed so far; `homenode undo` restores it", changed)
}

func printPast(w io.Writer, p view.Paint, x api.Explanation) {
	if len(x.Events) > 0 {
		fmt.Fprintf(w, "\n%s\n", p.Dim("history"))
		printEvents(w, p, folded(x.Events), false)
	}
}

// printBalancing is what was weighed for this workload at the newest look.
func printBalancing(w io.Writer, p view.Paint, x api.Explanation) {
	var lines []string
	for i := range x.Balance {
		c := &x.Balance[i]
		line := c.What().String() + ". " + c.Reason.String()
		if !c.Rejected.None() {
			line += " " + p.Dim("✗ "+c.Rejected.String())
		}
		lines = append(lines, line)
	}
	said := slices.Contains(words.Sentences(x.Decision.Reasons), x.Balancing)
	if lines == nil && x.Balancing != "" && x.Mode != "none" && !said {
		lines = []string{x.Balancing}
	}
	Section(w, p, "balancing", lines)
}

func Section(w io.Writer, p view.Paint, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.Dim(title))
	for _, l := range lines {
		fmt.Fprintf(w, "  %s\n", l)
	}
}

// ShownCandidates is as many as fit a screen with the rest.
const ShownCandidates = 8

func PrintCandidates(w io.Writer, p view.Paint, all []plan.Candidate, most int) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.Dim("candidates, best first (a lower score is better)"))
	for i, c := range all {
		if i == most {
			fmt.Fprintf(w, "  … and %d more (--json shows all)\n", len(all)-i)
			return
		}
		var terms []string
		for _, t := range c.Terms {
			terms = append(terms, fmt.Sprintf("%s %.3g", t.Name, t.Value))
		}
		line := fmt.Sprintf("%-11s %8.3f  %s", words.Nodes(c.Nodes), c.Score, strings.Join(terms, ", "))
		if !c.Rejected.None() {
			line += "  " + p.Dim("✗ "+c.Rejected.String())
		}
		fmt.Fprintf(w, "  %s\n", strings.TrimRight(line, " "))
	}
}

func byNode(mem []api.NodeKiB, total int64) string {
	var parts []string
	for _, m := range mem {
		if m.KiB > 0 && total > 0 {
			parts = append(parts, fmt.Sprintf("node %d %.1f %%", m.Node, 100*float64(m.KiB)/float64(total)))
		}
	}
	if len(parts) == 0 {
		return "unknown"
	}
	return strings.Join(parts, ", ")
}

// printKernel prints the nodes of page tables and kernel stacks, which no page move takes along.
func printKernel(w io.Writer, wl api.Workload) {
	k := wl.Kernel
	if k == nil {
		return
	}
	var lines []string
	add := func(what string, mem []api.NodeKiB) {
		total, parts := int64(0), []string{}
		for _, m := range mem {
			total += m.KiB
			parts = append(parts, fmt.Sprintf("%s on node %d", cli.KiB(m.KiB), m.Node))
		}
		if total > 0 {
			lines = append(lines, what+" "+strings.Join(parts, ", "))
		}
	}
	add("page tables", k.PageTables)
	add("second-level page tables", k.NestedTables)
	add("kernel stacks", k.Stacks)
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "  kernel %s\n", strings.Join(lines, "; "))
	home, _ := topology.ParseNodeSet(wl.Home)
	away := int64(0)
	for _, m := range slices.Concat(k.PageTables, k.NestedTables) {
		if !home.Has(m.Node) {
			away += m.KiB
		}
	}
	if home.Empty() || away < leastAway {
		return
	}
	const off = "%s of page tables lie off its home. No page move takes them along, and page walks are in no locality."
	fmt.Fprintf(w, "         "+off+"\n", cli.KiB(away))
	fmt.Fprintf(w, "         A restart at home allocates them there.\n")
}

// leastAway is the amount of page tables off home, KiB, from which explain names a remedy: those of 512 MiB in
// small pages.
const leastAway = 1024

// byType returns the share of each type of memory, and whether the kernel demotes to it.
func byType(mem []api.TypeKiB) string {
	total := int64(0)
	for _, m := range mem {
		total += m.KiB
	}
	var parts []string
	for _, m := range mem {
		text := fmt.Sprintf("%s %.1f %%", view.MemoryType(m.Type), 100*float64(m.KiB)/float64(max(1, total)))
		if m.Demoted {
			text += " (the kernel moves cold pages there; they count as local and stay)"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// printDistances names the source of each distance that was gone by.
func printDistances(w io.Writer, all []plan.Distance) {
	if len(all) == 0 {
		return
	}
	var parts []string
	for _, d := range all {
		parts = append(parts, fmt.Sprintf("node%d ×%.2f (%s)", d.To, d.Times, d.Source))
	}
	fmt.Fprintf(w, "  distances from node%d: %s\n", all[0].From, strings.Join(parts, ", "))
}

// from says what the locality of a workload is known from.
func from(x api.Workload) string {
	if x.LocalityFrom == "" {
		return ""
	}
	return " by " + string(x.LocalityFrom)
}

// PrintShortages says what each node lacks, in people's units.
func PrintShortages(w io.Writer, lacks []plan.Shortage) {
	for _, x := range lacks {
		want, have := words.Count(int(x.Want), string(x.Resource)), fmt.Sprint(x.Have)
		if x.Resource == plan.Memory {
			want, have = words.Size(topology.KiB(x.Want))+" of memory", words.Size(topology.KiB(x.Have))
		}
		fmt.Fprintf(w, "  %s: %s wanted, %s there\n", words.Nodes(x.Nodes), want, have)
	}
}
