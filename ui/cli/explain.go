package cli

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
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

func explainCommand(e *Env) *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "explain NAME",
		Short: "Say why a workload is where it is, or why it was not moved",
		Long: `Shows the place of one workload, the reasons, the candidate nodes, past changes
and the remaining steps.

` + namesText + `

device:NAME, the name of a NIC or an NVMe drive or its PCI address, says where
its interrupts go.`,
		Example: "  homenode status                       # lists the IDs\n  homenode explain redis.service\n  homenode explain 4711                 # the workload of a process\n  homenode explain device:eth0",
		Args:    oneWorkload(e),
		RunE: func(c *cobra.Command, args []string) error {
			b, done, err := connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			x, err := b.Explain(contextOf(c), workload.ID(args[0]))
			if refused := (*api.Error)(nil); errors.As(err, &refused) && strings.Contains(refused.Text, words.SmallerText) && !asJSON {
				_, err := fmt.Fprintf(e.Stdout, "%s.\nIt is placed once it holds manage.min_memory or uses manage.min_cpu; `homenode config show` has both.\n", words.Printable(refused.Text))
				return err
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(e.Stdout, x)
			}
			most := shownCandidates
			if all {
				most = len(x.Decision.Candidates)
			}
			if text := through(args[0], x); text != "" {
				fmt.Fprintln(e.Stdout, text)
			}
			printExplanation(e.Stdout, e.paint(), x, most)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-explain/3)")
	c.Flags().BoolVar(&all, "all", false, "all nodes that were weighed, not only the best eight")
	stateDirFlag(c, e)
	return c
}

// through says with whom a process is placed that was asked for and is not the workload itself.
func through(asked string, x api.Explanation) string {
	pid, isPID := workload.PIDOf(asked)
	if id := x.Workload.ID; isPID && x.Device == nil && id != workload.ID(asked) && id != workload.ID(fmt.Sprint("pid:", pid)) {
		return fmt.Sprintf("Process %d belongs to %s and is placed with it.\n", pid, words.Printable(label(x.Workload)))
	}
	return ""
}

// printDevice says where the interrupts and queues of a device go.
func printDevice(w io.Writer, p view.Paint, d *api.DeviceDetail) {
	fmt.Fprintf(w, "%s  %s %s on node %d, %s", p.Bold(string(d.ID)), d.Kind, d.PCI, d.Node, words.Count(d.Interrupts, "interrupt"))
	if d.MostQueues > 0 {
		fmt.Fprintf(w, ", %d of %d queues", d.Queues, d.MostQueues)
	}
	fmt.Fprintf(w, "\n  may go to  %s of node %d", words.CPUs(orDash(d.Allowed)), d.Node)
	if d.Avoided != "" {
		fmt.Fprintf(w, "; %s are dedicated", d.Avoided)
	}
	fmt.Fprintf(w, "\n  state      %s\n", paintState(p, d.State))
	if d.Why != "" {
		fmt.Fprintf(w, "  why        %s\n", d.Why)
	}
	fmt.Fprintln(w)
	t := view.NewTable("SETTING", "NAME", "NOW", "BY PLAN", "WHY").Drops("NAME")
	for _, s := range d.Settings {
		t.Row(s.Path, s.Name, orDash(s.Now), orDash(s.To), p.Dim(s.Why))
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
	section(w, p, "used by", users)
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
	name, what := label(wl), fmt.Sprintf("%s, %s, %.2f CPUs busy, %s", wl.Class, words.Count(wl.CPUs, "vCPU"), wl.CPUUse, kib(wl.MemoryKiB))
	between := "  "
	if p.Width > 0 && ansi.StringWidth(name+between+what) > p.Width { // the name in one piece
		between = "\n  "
	}
	fmt.Fprintln(w, p.Bold(name)+between+what)
	fmt.Fprintf(w, "  now    %s; memory %s; locality %s%s\n", words.CPUs(orDash(wl.CPUSet)), byNode(wl.MemoryByNode, wl.MemoryKiB), percent(wl.Locality), from(wl))
	if wl.Home != "" {
		fmt.Fprintf(w, "  plan   %s, %s; locality %s\n", words.Nodes(wl.Home), words.CPUs(wl.CPUSetPlanned), percent(wl.LocalityExpected))
	}
	fmt.Fprintf(w, "  state  %s\n", paintState(p, stateOf(wl)))
	printNear(w, p, wl)
	section(w, p, "why", words.Sentences(x.Decision.Reasons))
	printShortages(w, x.Decision.Shortages)
	section(w, p, "sharing", x.Sharing)
	printBalancing(w, p, x)
	printCandidates(w, p, x.Decision.Candidates, candidates)
	printDistances(w, x.Decision.Distances)
	var steps []string
	for _, s := range wl.Steps {
		steps = append(steps, fmt.Sprintf("%s: %s → %s. %s", s.Kind, orAll(s.From), s.To, s.Reason))
	}
	section(w, p, "steps left", steps)
	printJournal(w, p, x)
	if m := x.Move; m != nil {
		line := fmt.Sprintf("%s of %s to %s in %.1f s, %s", kib(m.Moved/1024), kib(m.Planned/1024), words.Nodes(m.Home), m.Seconds, m.State)
		if m.Refused > 0 || m.Why != "" {
			line += fmt.Sprintf("; %s refused: %s", kib(m.Refused/1024), m.Why)
		}
		if m.LocalityBefore != nil && m.LocalityAfter != nil {
			line += fmt.Sprintf("; locality %.0f %% before, %.0f %% after", 100**m.LocalityBefore, 100**m.LocalityAfter)
		}
		section(w, p, "newest move", []string{line})
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
		default:
			line += "; " + p.Dim("does not count") + ")"
		}
		fmt.Fprintf(w, "  near   %s\n", line)
		if l.PID == 0 && l.Why != "" {
			fmt.Fprintf(w, "         %s\n", l.Why)
		}
	}
	if v := wl.Vhost; v != nil {
		fmt.Fprintf(w, "  vhost  %s, %.2f CPUs, on node %s, may use CPUs %s, as its emulator\n", words.Count(float64(v.Threads), "thread"), v.CPUUse, v.Nodes, v.CPUs)
	}
	if wl.Load != nil {
		section(w, p, "kind of load", []string{wl.Load.Why})
	}
	if wl.Serves != nil {
		section(w, p, "works for others", []string{wl.Serves.Why})
	}
}

// printJournal is what was changed and can be put back.
func printJournal(w io.Writer, p view.Paint, x api.Explanation) {
	var changed []string
	for _, j := range x.Journal {
		changed = append(changed, fmt.Sprintf("%s of %s: %s → %s (%s)", j.Kind, j.Path, orAll(j.Old), j.New, j.State))
	}
	section(w, p, "changed so far; `homenode undo` puts it back", changed)
}

func printPast(w io.Writer, p view.Paint, x api.Explanation) {
	if len(x.Events) > 0 {
		fmt.Fprintf(w, "\n%s\n", p.Dim("history"))
		printEvents(w, p, x.Events, false)
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
	section(w, p, "balancing", lines)
}

func section(w io.Writer, p view.Paint, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.Dim(title))
	for _, l := range lines {
		fmt.Fprintf(w, "  %s\n", l)
	}
}

// shownCandidates is as many as fit a screen with the rest.
const shownCandidates = 8

func printCandidates(w io.Writer, p view.Paint, all []plan.Candidate, most int) {
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

func orAll(list string) string {
	if list == "" {
		return "all"
	}
	return list
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
