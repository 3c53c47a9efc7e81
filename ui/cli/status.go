package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

func statusCommand(e *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show every workload, its home, and how local its memory is",
		Long: `Shows what the daemon knows; without a daemon, what one look at the machine
tells.

LOCAL NOW is the share of memory accesses that stay on the node. The hardware
counts it or the kernel samples it (NUMA balancing) where they can; elsewhere it
is expected from residence, the sum over all nodes of (share of CPU time there)
× (share of memory there). BY PLAN is always expected in that way.`,
		Example: "  homenode status\n  homenode status --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b, done, err := connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			s, err := b.Status(contextOf(c))
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(e.Stdout, s)
			}
			printStatus(e, s)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-status/2)")
	stateDirFlag(c, e)
	return c
}

func printStatus(e *Env, s api.Status) {
	p, s := e.paint(), view.PlainAll(s)
	fmt.Fprintln(e.Stdout, headline(s, p))
	nodes := view.NewTable("NODE", "CPUS", ">BUSY", ">VCPUS", ">MEMORY", ">FREE", ">BOOKED", ">TRAFFIC").Names("CPUS").Drops("TRAFFIC", "BOOKED", "VCPUS")
	for _, n := range s.Nodes {
		nodes.Row(fmt.Sprint(n.ID), orDash(n.CPUs), paintBusy(p, n), fmt.Sprintf("%.4g", n.VCPUs), kib(n.MemoryKiB), paintFree(p, n), kib(n.BookedKiB), traffic(n))
	}
	nodes.Print(e.Stdout, p)
	if len(s.Workloads) == 0 {
		fmt.Fprintf(e.Stdout, "\nno workload is large enough to be placed; %s left alone\n", smaller(s.Small))
	} else {
		fmt.Fprintln(e.Stdout)
		printWorkloads(e.Stdout, p, s)
	}
	if b := s.Partition; b != nil {
		fmt.Fprintf(e.Stdout, "%s %s; %s\n", p.Dim("partition:"), b.Partition, partitionWords(*b))
	}
	printSources(e.Stdout, p, s)
	if s.Balance != nil && s.Mode != "none" { // one look tells nothing about a load
		fmt.Fprintf(e.Stdout, "%s %s\n", p.Dim("balancing:"), s.Balance.Verdict())
	}
	printDevices(e.Stdout, p, s.Devices)
	printManagers(e.Stdout, p, s.Managers)
	for _, problem := range s.Problems {
		fmt.Fprintf(e.Stdout, "%s %s\n", p.Warn("!"), problem)
	}
}

func busyCPUs(cpus *float64) string {
	if cpus == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *cpus)
}

func traffic(n api.Node) string {
	if n.Bandwidth == nil {
		return "-"
	}
	return fmt.Sprintf("%d MiB/s", *n.Bandwidth)
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
}

// printDevices shows where the interrupts of devices go.
func printDevices(w io.Writer, p view.Paint, all []api.Device) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := view.NewTable("DEVICE", "NODE", ">INTERRUPTS", ">AT HOME", ">FIXED", ">TO SET", "STATE").Drops("FIXED", "TO SET", "INTERRUPTS")
	for _, d := range all {
		t.Row(d.Name, fmt.Sprint(d.Node), fmt.Sprint(d.Interrupts), fmt.Sprint(d.AtHome), fmt.Sprint(d.Fixed), fmt.Sprint(d.Steps),
			strings.TrimSpace(paintState(p, d.State)+"  "+p.Dim(d.Why)))
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
		t.Row(m.Name, m.Does, orDash(m.Owns))
	}
	t.Print(w, p)
}

func headline(s api.Status, p view.Paint) string {
	how := map[string]string{
		"observe": "observe mode: nothing is changed",
		"enforce": "enforce mode",
		"none":    "no daemon runs; this is one look",
	}[s.Mode]
	if s.Held {
		how += "; everything was undone, `homenode resume --all` goes on"
	}
	return p.Bold("homenode "+s.Version) + "  " + how
}

func printWorkloads(w io.Writer, p view.Paint, s api.Status) {
	t := view.NewTable("WORKLOAD", "CLASS", ">VCPUS", "HOME", ">CPU", ">MEMORY", ">LOCAL NOW", ">BY PLAN", "STATE").
		Drops("BY PLAN", "VCPUS", "CLASS", "CPU", "MEMORY")
	for _, x := range s.Workloads {
		vcpus := "-"
		if x.CPUs > 0 {
			vcpus = fmt.Sprint(x.CPUs)
		}
		t.Row(label(x), string(x.Class), vcpus, orDash(x.Home), fmt.Sprintf("%.2f", x.CPUUse),
			kib(x.MemoryKiB), paintLocal(p, x.Locality), percent(x.LocalityExpected), paintState(p, stateOf(x)))
	}
	t.Print(w, p)
	for _, x := range s.Workloads {
		switch {
		case x.State == api.StatePaused:
			fmt.Fprintf(w, "%s %s: %s\n", p.Warn("paused:"), x.ID, x.Why)
		case x.Move != nil && x.Move.Refused > 0 && x.Move.State != "running":
			fmt.Fprintf(w, "%s %s\n", p.Dim("did not move:"), fmt.Sprintf("%s: %s", x.ID, x.Move.Why))
		}
	}
	if s.Small > 0 {
		fmt.Fprintf(w, "%s\n", p.Dim(smaller(s.Small)+" left alone"))
	}
}

func smaller(n int) string {
	if n == 1 {
		return "1 smaller workload is"
	}
	return fmt.Sprintf("%d smaller workloads are", n)
}

// label is the ID, with the name where the ID does not tell it.
func label(x api.Workload) string {
	if strings.HasPrefix(string(x.ID), "pid:") && x.Name != "" {
		return string(x.ID) + " " + x.Name
	}
	return string(x.ID)
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", *share*100)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
