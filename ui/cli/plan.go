package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

func planCommand(e *Env) *cobra.Command {
	var from topologySource
	var spec string
	var cases []string
	var asJSON, admitAll, restoring, repack bool
	var reserve, packing, peer, admitted string
	moves := repackOptions{most: place.DefaultMoves, within: 2 * time.Second}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Find places for workloads on this or another host, with reasons",
		Long: `Finds places for workloads, with reasons. Changes nothing and asks no daemon.

--spec reads workloads, one YAML document or a list of them, and places them one
after the other on a host that holds nothing but what its memory figures show in
use:

  - name: db
    class: dedicated       # dedicated, shared (default), batch
    cpus: 16
    memory: 64GiB
    smt: isolate           # prefer (default), isolate, require
    huge_page: 2MiB
    near: [eth0]           # devices or workloads above; {name: eth0, weight: 2}
    nodes: "0-1"           # only these
    max_nodes: 2           # at most so many; naming it allows any split
    even: true             # a split gives every node the same part (vNUMA)
    bandwidth: 20000       # MiB/s of memory bandwidth
    importance: 80         # 0 to 100

--case runs a trace of arrivals and departures and writes one JSON line for each
arrival. With --repack running workloads may move, at most once for every second
arrival, and each line lists the moves made for it.

--admit reads workloads like --spec and finds the fewest moves of running ones
after which they fit; --restore finds moves that bring running workloads nearer
to their memory. Running workloads come from --running, or from homenode on this
machine. That file is a list like the above; each entry may also have

    at: {cpus: "0-3,8", memory: {0: 8GiB}}   # default: its place by plan
    stay: its GPU is there                   # why it must not move`,
		Example: `  echo '{name: db, class: dedicated, cpus: 4, memory: 2GiB}' | \
    homenode plan --spec - --synthetic "package:2 node:2 core:8 pu:2"
  printf -- '- {name: %s, class: dedicated, cpus: 2, at: {cpus: %s}}\n' \
    a 0-1 b 4-5 > running.yaml
  echo '{name: new, class: dedicated, cpus: 4, max_nodes: 1}' |
    homenode plan --admit - --running running.yaml \
    --synthetic "package:2 node:1(memory=16GiB) core:4 pu:1"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(cases) > 0 {
				return planCases(e, cases, replay.Options{Peer: peer, Must: admitAll, Packing: plan.Packing(packing), Repack: repack})
			}
			switch {
			case spec == "" && admitted == "" && !restoring:
				return usageErrorf("nothing to plan: give one of --spec, --admit, --restore, --case")
			case repack:
				return usageErrorf("--repack is for --case; --admit finds moves for a workload")
			case moves.running != "" && spec != "":
				return usageErrorf("--running is for --admit and --restore")
			case moves.running == "-" && admitted == "-":
				return usageErrorf("standard input can be --admit or --running, not both")
			}
			if err := moves.valid(); err != nil {
				return err
			}
			var specs []workload.Spec
			var err error
			if name := spec + admitted; name != "" {
				if specs, err = readSpecs(e, name); err != nil {
					return err
				}
			}
			h, err := from.read(e)
			if err != nil {
				return err
			}
			st, err := idleState(h, reserve, packing)
			if err != nil {
				return err
			}
			if spec == "" {
				return planMoves(c, e, from, &moves, st, specs, admitAll, asJSON)
			}
			results, l := planSpecs(st, specs, admitAll)
			if asJSON {
				err = printJSON(e.Stdout, planJSON(results, l))
			} else {
				err = printPlans(e, results)
			}
			if err == nil && anyRefused(results) {
				return errNo
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&spec, "spec", "", "place the workloads in `FILE` (- is standard input)")
	f.StringVar(&admitted, "admit", "", "find the fewest moves that make room for the workloads in `FILE` (- is standard input)")
	f.BoolVar(&restoring, "restore", false, "find moves that bring running workloads nearer to their memory")
	f.StringVar(&moves.running, "running", "", "read running workloads and their places from `FILE` (- is standard input)")
	f.IntVar(&moves.most, "moves", moves.most, "find at most `N` moves")
	f.DurationVar(&moves.within, "within", moves.within, "search about so long; the best found by then counts")
	f.BoolVar(&repack, "repack", false, "let running workloads move in --case")
	f.StringArrayVar(&cases, "case", nil, "run the trace in `FILE` (- is standard input); may be repeated")
	f.BoolVar(&admitAll, "admit-all", false, "take every split that fits, also one that does not pay")
	f.StringVar(&reserve, "reserve", "", "`CPUS` that no workload gets, such as 0,16")
	f.StringVar(&packing, "packing", "", "adaptive, pack or spread")
	f.StringVar(&peer, "peer", "homenode", "`NAME` in the lines of --case")
	f.StringVar(&from.root, "root", "", "the host under `DIR`, or in a tar file that gather wrote (- is standard input)")
	f.StringVar(&from.hwloc, "hwloc", "", "the host in `FILE`, written by lstopo --of xml")
	f.StringVar(&from.synthetic, "synthetic", "", "a made-up `HOST`, such as \"package:2 node:2 core:8 pu:2\"")
	f.StringVar(&from.host, "host", "", "the host in `JSONFILE`, written by topology --json")
	f.BoolVar(&asJSON, "json", false, "print JSON (schemas homenode-plan/3, homenode-repack/3, homenode-restore/3)")
	socketFlag(c, e)
	c.MarkFlagsMutuallyExclusive("root", "hwloc", "synthetic", "host", "case")
	c.MarkFlagsMutuallyExclusive("spec", "case", "admit", "restore")
	c.MarkFlagsMutuallyExclusive("running", "case")
	c.MarkFlagsMutuallyExclusive("reserve", "case")
	c.MarkFlagsMutuallyExclusive("json", "case")
	return c
}

// idleState is a host with nothing placed on it. Memory that is in use and that
// the kernel would not give back counts as taken.
func idleState(h *topology.Host, reserve, packing string) (plan.State, error) {
	st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
	var err error
	if st.Policy.Reserved, err = topology.ParseCPUSet(reserve); err != nil {
		return st, usageErrorf("--reserve: %w", err)
	}
	if beyond := st.Policy.Reserved.Minus(h.Online.Union(h.Offline)); !beyond.Empty() {
		return st, usageErrorf("--reserve: CPUs %v are not on this host, which has %v", beyond, h.Online)
	}
	switch p := plan.Packing(packing); p {
	case "":
	case plan.Adaptive, plan.Pack, plan.Spread:
		st.Policy.Packing = p
	default:
		return st, usageErrorf("--packing %q; want adaptive, pack or spread", packing)
	}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if n.Memory <= 0 || n.Free < 0 {
			continue
		}
		used := n.Memory - n.Free - max(0, n.Reclaimable)
		for _, p := range n.HugePages {
			used -= p.Size * topology.KiB(max(0, p.Total))
		}
		if used > 0 {
			st.Unmanaged = append(st.Unmanaged, workload.NodeMemory{Node: n.ID, KiB: used})
		}
	}
	return st, nil
}

// planned is one workload with what was decided.
type planned struct {
	spec   workload.Spec
	result place.Result
}

func planSpecs(st plan.State, specs []workload.Spec, must bool) ([]planned, *place.Ledger) {
	l := place.NewLedger(st)
	out := make([]planned, 0, len(specs))
	for _, s := range specs {
		r := l.Place(place.Request{Spec: s, Must: must})
		if r.Placed() {
			l.Commit(r.Placement)
		}
		out = append(out, planned{s, r})
	}
	return out, l
}

func anyRefused(results []planned) bool {
	for i := range results {
		if !results[i].result.Placed() {
			return true
		}
	}
	return false
}

// planDocument is where the workloads of a specification would go.
type planDocument struct {
	Schema     string              `json:"schema"`
	Placements []api.PlanPlacement `json:"placements"` // placements after the last decision
	Decisions  []plan.Decision     `json:"decisions"`  // decisions, in the order of the workloads
}

func planJSON(results []planned, l *place.Ledger) planDocument {
	doc := planDocument{Schema: "homenode-plan/3", Placements: []api.PlanPlacement{}}
	for _, p := range l.Placements() {
		doc.Placements = append(doc.Placements, api.Planned(&p))
	}
	for i := range results {
		doc.Decisions = append(doc.Decisions, results[i].result.Decision)
	}
	return doc
}

func printPlans(e *Env, results []planned) error {
	out := bufio.NewWriter(e.Stdout)
	p := e.paint()
	for i := range results {
		if i > 0 {
			fmt.Fprintln(out)
		}
		printPlanned(out, p, &results[i])
	}
	return out.Flush()
}

func printPlanned(w io.Writer, p view.Paint, r *planned) {
	s, d := &r.spec, &r.result.Decision
	memory := ""
	if s.Memory > 0 {
		memory = ", " + words.Size(s.Memory)
	}
	fmt.Fprintf(w, "%s  %s, %s%s\n", p.Bold(s.Name), s.Class, words.Count(s.CPUs, "vCPU"), memory)
	if !r.result.Placed() {
		fmt.Fprintf(w, "  %s\n", p.Warn("refused"))
	} else {
		pl := &r.result.Placement
		fmt.Fprintf(w, "  home   %s, %s%s\n", p.Bold(words.Nodes(pl.Home)), words.CPUs(pl.CPUs), memoryOf(pl))
	}
	section(w, p, "why", words.Sentences(d.Reasons))
	printShortages(w, d.Shortages)
	printCandidates(w, p, d.Candidates, shownCandidates)
}

func memoryOf(p *plan.Placement) string {
	if len(p.Memory) == 0 {
		return ""
	}
	parts := make([]string, len(p.Memory))
	for i, m := range p.Memory {
		parts[i] = fmt.Sprintf("%s on node %d", words.Size(m.KiB), m.Node)
	}
	return ", memory " + strings.Join(parts, ", ")
}

func planCases(e *Env, names []string, o replay.Options) error {
	switch o.Packing {
	case "", plan.Adaptive, plan.Pack, plan.Spread:
	default:
		return usageErrorf("--packing %q; want adaptive, pack or spread", o.Packing)
	}
	out := bufio.NewWriter(view.JSON(view.Raw(e.Stdout)))
	enc := json.NewEncoder(out)
	start := time.Now()
	o.Now = func() int64 { return time.Since(start).Nanoseconds() }
	o.Answered = func(a *replay.Answer, _ *place.Ledger) error { return enc.Encode(a) }
	for _, name := range names {
		c, err := fromFile(e, name, replay.Read)
		if err != nil {
			return err
		}
		if err := replay.Run(c, o); err != nil {
			return err
		}
	}
	return out.Flush()
}

// printShortages says what each node lacks, in people's units.
func printShortages(w io.Writer, lacks []plan.Shortage) {
	for _, x := range lacks {
		want, have := words.Count(int(x.Want), string(x.Resource)), fmt.Sprint(x.Have)
		if x.Resource == plan.Memory {
			want, have = words.Size(topology.KiB(x.Want))+" of memory", words.Size(topology.KiB(x.Have))
		}
		fmt.Fprintf(w, "  %s: %s wanted, %s there\n", words.Nodes(x.Nodes), want, have)
	}
}
