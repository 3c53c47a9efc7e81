package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// printTables writes what bench/results/placement.md shows.
func printTables(w io.Writer, ours, peers []Score) {
	byCase := map[string][]Score{}
	for _, s := range peers {
		byCase[s.Case] = append(byCase[s.Case], s)
	}
	printTraces(w, ours, byCase)
	for _, hosts := range [][]string{{"h2_", "h4_"}, {"h8_"}} {
		printPeers(w, ours, peers, hosts)
	}
	printProbes(w, ours, byCase)
}

func is(s Score, family string) bool { return strings.HasPrefix(s.Case, family) }

func best(all []Score) Score {
	if len(all) == 0 {
		return Score{Peer: "-"}
	}
	return slices.MaxFunc(all, func(a, b Score) int { return cmp.Compare(a.Utility, b.Utility) })
}

// rival is the least number of shared cores among peers that accept as much.
func rival(s Score, all []Score) string {
	least := -1.0
	for _, p := range all {
		if p.AcceptedVCPU >= s.AcceptedVCPU-0.0005 && (least < 0 || p.Shares < least) {
			least = p.Shares
		}
	}
	if least < 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f", least)
}

func printTraces(w io.Writer, ours []Score, byCase map[string][]Score) {
	fmt.Fprintln(w,
		"| trace | utility % | best peer | its utility % | difference | accepted vCPU % | local % | cores shared | "+
			"fewest of peers that accept as much | rejected with room | p50 µs |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	var u, b, worst float64
	n, bad := 0, 0
	for _, s := range ours {
		for _, k := range s.Bad {
			bad += k
		}
		if !is(s, "churn_") && !is(s, "short_") && !is(s, "fill") {
			continue
		}
		p := best(byCase[s.Case])
		fmt.Fprintf(w, "| %s | %.1f | %s | %.1f | %+.1f | %.1f | %.1f | %.1f | %s | %d | %.1f |\n", s.Case,
			100*s.Utility, p.Peer, 100*p.Utility,
			100*(s.Utility-p.Utility), 100*s.AcceptedVCPU, 100*s.Local, s.Shares, rival(s, byCase[s.Case]),
			s.RejectedRoom, s.P50)
		if is(s, "churn_") {
			u = u + s.Utility
			b = b + p.Utility
			n = n + 1
			worst = min(worst, s.Utility-p.Utility)
		}
	}
	if n > 0 {
		fmt.Fprintf(w,
			"\nOver the %d churn traces: mean utility %.2f %%, mean of each trace's best peer %.2f %%, most behind "+
				"on one trace %.1f points; violations in all cases: %d.\n",
			n, 100*u/float64(n), 100*b/float64(n), -100*worst, bad)
	}
}

// printMoves sets runs with moves beside the same runs without. limits has one
// entry for each churn trace, or none.
func printMoves(w io.Writer, ours, moved []Score, limits []Limit) {
	head,
		rule := "| trace | utility % | with moves | difference | lasting | moves an arrival | GiB an arrival | "+
		"rejected with room | p99 ms |", "|---|---|---|---|---|---|---|---|---|"
	if limits != nil {
		head, rule = head+" as one node | best policy | its mean |", rule+"---|---|---|"
	}
	fmt.Fprintf(w, "\nWith moves:\n\n%s\n%s\n", head, rule)
	var sum Score
	var top Limit
	before := 0.0
	n := 0
	bad := 0
	for i, m := range moved {
		for _, k := range m.Bad {
			bad += k
		}
		if !is(m, "churn_") {
			continue
		}
		arrivals := float64(max(1, m.N))
		fmt.Fprintf(w, "| %s | %.1f | %.1f | %+.1f | %.1f | %.3f | %.2f | %d, was %d | %.1f |", m.Case,
			100*ours[i].Utility, 100*m.Utility, 100*(m.Utility-ours[i].Utility),
			100*m.Lasting, float64(m.Moves)/arrivals, m.MovedGiB/arrivals, m.RejectedRoom, ours[i].RejectedRoom,
			m.P99/1000)
		if limits != nil {
			x := limits[n]
			fmt.Fprintf(w, " %.1f | %.1f | %.1f |", 100*x.Greedy, 100*x.Optimal, 100*x.Mean)
			top.Greedy = top.Greedy + x.Greedy
			top.Optimal = top.Optimal + x.Optimal
			top.Mean = top.Mean + x.Mean
		}
		fmt.Fprintln(w)
		n++
		before += ours[i].Utility
		sum.Utility, sum.Lasting = sum.Utility+m.Utility, sum.Lasting+m.Lasting
		sum.Moves = sum.Moves + m.Moves
		sum.MovedGiB = sum.MovedGiB + m.MovedGiB
		sum.N = sum.N + m.N
	}
	if n == 0 {
		return
	}
	k := 100 / float64(n)
	fmt.Fprintf(w,
		"\nOver the %d churn traces: mean utility %.2f %% with moves, %.2f %% without, %+.2f points; lasting %.2f "+
			"%%; %.3f moves and %.2f GiB an arrival; violations in all cases: %d.\n",
		n, k*sum.Utility, k*before, k*(sum.Utility-before), k*sum.Lasting, float64(sum.Moves)/float64(max(1, sum.N)),
		sum.MovedGiB/float64(max(1, sum.N)), bad)
	if limits != nil {
		fmt.Fprintf(w,
			"Were each host one node: %.2f %% admitting all that fits; with memory without end, %.2f %% under the "+
				"policy that is best in expectation, whose mean over such traces is %.2f %%.\n",
			k*top.Greedy, k*top.Optimal, k*top.Mean)
	}
}

func printPeers(w io.Writer, ours, peers []Score, hosts []string) {
	var names []string
	for _, s := range peers {
		if !slices.Contains(names, s.Peer) {
			names = append(names, s.Peer)
		}
	}
	slices.Sort(names)
	fmt.Fprintf(w, "\nChurn traces on hosts %s*, means:\n\n", strings.Join(hosts, "*, "))
	fmt.Fprintln(w,
		"| peer | traces | utility % | accepted vCPU % | local % | cost | imbalance | cores shared | rejected with "+
			"room | missed local | p50 µs |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|")
	row := func(name string, all []Score) {
		var m Score
		n, took := 0.0, 0.0
		for _, s := range all {
			on := slices.ContainsFunc(hosts, func(h string) bool { return strings.Contains(s.Case, h) })
			if s.Peer != name || !is(s, "churn_") || !on {
				continue
			}
			n++
			m.Utility += s.Utility
			m.AcceptedVCPU += s.AcceptedVCPU
			m.Local += s.Local
			if s.Accepted > 0 {
				took++
				m.Cost += s.Cost
			}
			m.Imbalance += s.Imbalance
			m.Shares += s.Shares
			m.RejectedRoom += s.RejectedRoom
			m.MissedLocal += s.MissedLocal
			m.P50 += s.P50
		}
		if n > 0 {
			fmt.Fprintf(w, "| %s | %.0f | %.1f | %.1f | %.1f | %.4f | %.2f | %.2f | %.1f | %.1f | %.0f |\n", name, n,
				100*m.Utility/n, 100*m.AcceptedVCPU/n,
				100*m.Local/n, m.Cost/max(1, took), m.Imbalance/n, m.Shares/n, float64(m.RejectedRoom)/n,
				float64(m.MissedLocal)/n, m.P50/n)
		}
	}
	row(ours[0].Peer, ours)
	for _, name := range names {
		row(name, peers)
	}
}

func printProbes(w io.Writer, ours []Score, byCase map[string][]Score) {
	fmt.Fprintln(w, "\n| probe | homenode | peers that pass |")
	fmt.Fprintln(w, "|---|---|---|")
	for _, s := range ours {
		if !is(s, "p_") {
			continue
		}
		pass := 0
		for _, p := range byCase[s.Case] {
			if strings.HasPrefix(p.Expect, "ok") {
				pass++
			}
		}
		fmt.Fprintf(w, "| %s | %s | %d of %d |\n", strings.TrimPrefix(s.Case, "p_"), s.Expect, pass,
			len(byCase[s.Case]))
	}
}
