package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// tables writes what the cells hold as Markdown.
func tables(to io.Writer, cells []*cell) error {
	w := bufio.NewWriter(to)
	h := thisRun()
	fmt.Fprintf(w, "%s; `%s`. %d seeds of each scenario and size; means.\n\n", h.Machine, h.Command, cells[0].Seeds)
	fmt.Fprintln(w,
		"Felt cost of an access that work wants, ns: the access, as many times longer as the work waits for a CPU "+
			"(docs/design/simulator.md).")
	fmt.Fprintf(w, "Best peer: of %s; behind it by so much, below zero ahead.\n\n", strings.Join(policies[1:], ", "))
	fmt.Fprintf(w, "| scenario, nodes | %s | best peer | behind |\n|---%s|---|---|\n", strings.Join(policies, " | "),
		strings.Repeat("|---", len(policies)))
	for _, c := range cells {
		peer, behind := c.best(felt)
		fmt.Fprintf(w, "| %s, %d |", c.Scenario, c.Nodes)
		c.each(w, " %.1f |", felt)
		fmt.Fprintf(w, " %s | %s |\n", peer, percent(behind))
	}
	fmt.Fprintf(w,
		"\nBy simulated queues instead of a formula: how many times longer work takes than alone on an idle host "+
			"with near memory, the mean of %d instants (docs/design/simulator.md):\n\n", judged)
	fmt.Fprintf(w, "| scenario, nodes | %s | best peer | behind |\n|---%s|---|---|\n", strings.Join(policies, " | "),
		strings.Repeat("|---", len(policies)))
	for _, c := range cells {
		peer, behind := c.best(stretch)
		fmt.Fprintf(w, "| %s, %d |", c.Scenario, c.Nodes)
		c.each(w, " %.3f |", stretch)
		fmt.Fprintf(w, " %s | %s |\n", peer, percent(behind))
	}
	fmt.Fprintln(w, "\nOver all sizes:")
	fmt.Fprintln(w)
	summary(w, cells)
	for _, x := range []struct {
		title, format string
		figure        func(*row) float64
	}{
		{"Access alone, ns; who gets less CPU causes less traffic", " %.1f |", access},
		{"Utility, percent", " %.1f |", func(r *row) float64 { return mean(r.Utility) }},
		{"Slowdown of the important workload", " %.3f |", func(r *row) float64 { return mean(r.Important) }},
		{"Homes changed (kernel-balancing: preferred nodes of workloads; numad: bindings)", " %.1f |",
			func(r *row) float64 { return mean(r.Homes) }},
		{"… back within 15 minutes", " %.2f |", func(r *row) float64 { return mean(r.Back) }},
		{"Moved, GiB", " %.1f |", func(r *row) float64 { return mean(r.Moved) }},
		{"Refused", " %.2f |", func(r *row) float64 { return mean(r.Refused) }},
	} {
		detail(w, cells, x.title, x.format, x.figure)
	}
	return w.Flush()
}

func percent(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

func (c *cell) each(w io.Writer, format string, figure func(*row) float64) {
	for _, p := range policies {
		fmt.Fprintf(w, format, figure(c.of(p)))
	}
}

// detail is a table of one figure, without the scenarios in which it is 0 for all.
func detail(w io.Writer, cells []*cell, title, format string, figure func(*row) float64) {
	head := fmt.Sprintf("\n%s:\n\n| scenario, nodes | %s |\n|---%s|\n", title, strings.Join(policies, " | "),
		strings.Repeat("|---", len(policies)))
	for _, c := range cells {
		sum := 0.0
		for k := range c.Rows {
			sum += figure(&c.Rows[k])
		}
		if sum == 0 {
			continue
		}
		fmt.Fprint(w, head)
		head = ""
		fmt.Fprintf(w, "| %s, %d |", c.Scenario, c.Nodes)
		c.each(w, format, figure)
		fmt.Fprintln(w)
	}
}

// summary is one line a scenario: means over the sizes of host.
func summary(w io.Writer, cells []*cell) {
	fmt.Fprintf(w,
		"| scenario | %s | behind the best, by size | slowdown | best peer's | homes changed | most in a run | "+
			"moved, GiB | numad | kernel |\n|---%s|\n",
		strings.Join(policies, " | "), strings.Repeat("|---", len(policies)+8))
	var names []string
	for _, c := range cells {
		if !slices.Contains(names, c.Scenario) {
			names = append(names, c.Scenario)
		}
	}
	for _, name := range names {
		var of []*cell
		for _, c := range cells {
			if c.Scenario == name {
				of = append(of, c)
			}
		}
		over := func(policy string, figure func(*row) float64) float64 {
			sum := 0.0
			for _, c := range of {
				sum += figure(c.of(policy))
			}
			return sum / float64(len(of))
		}
		fmt.Fprintf(w, "| %s |", name)
		for _, p := range policies {
			fmt.Fprintf(w, " %.1f |", over(p, felt))
		}
		var behind []string
		most := 0.0
		for _, c := range of {
			_, b := c.best(felt)
			behind = append(behind, percent(b))
			if h := c.of("homenode").Homes; h != nil {
				most = max(most, slices.Max(h))
			}
		}
		fmt.Fprintf(w, " %s |", strings.Join(behind, ", "))
		slowdown := func(r *row) float64 { return mean(r.Important) }
		if over("homenode", slowdown) > 0 {
			least := 0.0
			for _, p := range policies[1:] {
				if x := over(p, slowdown); least == 0 || x < least {
					least = x
				}
			}
			fmt.Fprintf(w, " %.3f | %.3f |", over("homenode", slowdown), least)
		} else {
			fmt.Fprint(w, "  |  |")
		}
		moved := func(r *row) float64 { return mean(r.Moved) }
		fmt.Fprintf(w, " %.1f | %.0f | %.1f | %.1f | %.1f |\n",
			over("homenode", func(r *row) float64 { return mean(r.Homes) }), most,
			over("homenode", moved), over("numad", moved), over("kernel-balancing", moved))
	}
}
