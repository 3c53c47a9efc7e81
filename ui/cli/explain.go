package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

func explainCommand(e *Env) *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a workload is where it is, or why it was not moved",
		Long: "ID is what `homenode status` prints: a cgroup path or pid:N. A name that only one workload has will do.\n" +
			"device:NAME, the name of a NIC or an NVMe drive or its PCI address, says where its interrupts go.",
		Example: "  homenode status                       # lists the IDs\n  homenode explain /system.slice/redis.service\n  homenode explain device:eth0",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			b, done, err := connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			x, err := b.Explain(contextOf(c), workload.ID(args[0]))
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
			printExplanation(e.text(e.Stdout), e.paint(), x, most)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-explain/1)")
	c.Flags().BoolVar(&all, "all", false, "every candidate that was weighed, not the best eight")
	stateDirFlag(c, e)
	return c
}

// printDevice says where the interrupts and queues of a device go.
func printDevice(w io.Writer, p paint, d *api.DeviceDetail) {
	fmt.Fprintf(w, "%s  %s %s on node %d, %d interrupts", p.bold(string(d.ID)), d.Kind, d.PCI, d.Node, d.Interrupts)
	if d.MostQueues > 0 {
		fmt.Fprintf(w, ", %d of %d queues", d.Queues, d.MostQueues)
	}
	fmt.Fprintf(w, "\n  may go to  CPUs %s of node %d", orDash(d.Allowed), d.Node)
	if d.Avoided != "" {
		fmt.Fprintf(w, "; %s are somebody's alone", d.Avoided)
	}
	fmt.Fprintf(w, "\n  state      %s\n", p.state(d.State))
	if d.Why != "" {
		fmt.Fprintf(w, "  why        %s\n", d.Why)
	}
	fmt.Fprintln(w)
	t := newTable("SETTING", "NAME", "NOW", "BY PLAN", "WHY")
	for _, s := range d.Settings {
		t.row(s.Path, s.Name, orDash(s.Now), orDash(s.To), p.dim(s.Why))
	}
	t.print(w, p)
	var users []string
	for _, u := range d.Users {
		users = append(users, fmt.Sprintf("%s, home node %s: %s", u.Workload, orDash(u.Home), u.How))
	}
	section(w, p, "used by", users)
}

func printExplanation(w io.Writer, p paint, x api.Explanation, candidates int) {
	if x.Device != nil {
		printDevice(w, p, x.Device)
		printJournal(w, p, x)
		printPast(w, p, x)
		return
	}
	wl := x.Workload
	fmt.Fprintf(w, "%s  %s, %d vCPUs, %.2f CPUs busy, %s\n", p.bold(label(wl)), wl.Class, wl.CPUs, wl.CPUUse, kib(wl.MemoryKiB))
	fmt.Fprintf(w, "  now    CPUs %s; memory %s; locality %s%s\n", orDash(wl.CPUSet), byNode(wl.MemoryByNode, wl.MemoryKiB), percent(wl.Locality), from(wl))
	if wl.Home != "" {
		fmt.Fprintf(w, "  plan   node %s, CPUs %s; locality %s\n", wl.Home, wl.CPUSetPlanned, percent(wl.LocalityExpected))
	}
	fmt.Fprintf(w, "  state  %s\n", p.state(wl.State))
	printNear(w, p, wl)
	section(w, p, "why", x.Decision.Reasons)
	printShortages(w, x.Decision.Shortages)
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
		line := fmt.Sprintf("%s of %s to node %s in %.1f s, %s", kib(m.Moved/1024), kib(m.Planned/1024), m.Home, m.Seconds, m.State)
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

// printNear is what a workload is near to, told or learned.
func printNear(w io.Writer, p paint, wl api.Workload) {
	for _, name := range wl.Near {
		fmt.Fprintf(w, "  near   %s (told)\n", name)
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
		if l.Weight > 0 {
			line += fmt.Sprintf("; weight %.2f)", l.Weight)
		} else {
			line += "; " + p.dim("does not count") + ")"
		}
		fmt.Fprintf(w, "  near   %s\n", line)
	}
}

// printJournal is what was changed and can be put back.
func printJournal(w io.Writer, p paint, x api.Explanation) {
	var changed []string
	for _, j := range x.Journal {
		changed = append(changed, fmt.Sprintf("%s of %s: %s → %s (%s)", j.Kind, j.Path, orAll(j.Old), j.New, j.State))
	}
	section(w, p, "changed so far; `homenode undo` puts it back", changed)
}

func printPast(w io.Writer, p paint, x api.Explanation) {
	if len(x.Events) > 0 {
		fmt.Fprintf(w, "\n%s\n", p.dim("history"))
		printEvents(w, p, x.Events, false)
	}
}

// printBalancing is what was weighed for this workload at the newest look.
func printBalancing(w io.Writer, p paint, x api.Explanation) {
	var lines []string
	for i := range x.Balance {
		c := &x.Balance[i]
		line := c.Words() + ". " + c.Reason
		if c.Rejected != "" {
			line += " " + p.dim("✗ "+c.Rejected)
		}
		lines = append(lines, line)
	}
	if lines == nil && x.Balancing != "" && x.Mode != "none" {
		lines = []string{x.Balancing}
	}
	section(w, p, "balancing", lines)
}

func section(w io.Writer, p paint, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.dim(title))
	for _, l := range lines {
		fmt.Fprintf(w, "  %s\n", l)
	}
}

// shownCandidates is as many as fit a screen with the rest.
const shownCandidates = 8

func printCandidates(w io.Writer, p paint, all []plan.Candidate, most int) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", p.dim("candidates, best first (a lower score is better)"))
	for i, c := range all {
		if i == most {
			fmt.Fprintf(w, "  … and %d more (--json shows all)\n", len(all)-i)
			return
		}
		var terms []string
		for _, t := range c.Terms {
			terms = append(terms, fmt.Sprintf("%s %.3g", t.Name, t.Value))
		}
		line := fmt.Sprintf("node %-6s %8.3f  %s", c.Nodes, c.Score, strings.Join(terms, ", "))
		if c.Rejected != "" {
			line += "  " + p.dim("✗ "+c.Rejected)
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
