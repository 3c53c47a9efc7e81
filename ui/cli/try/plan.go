package try

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
	"github.com/homenode/homenode/ui/view"
)

// planFlags is what the command line of plan says.
type planFlags struct {
	from  cli.TopologySource
	spec  string
	cases []string
	moves repackOptions

	asJSON, admitAll, restoring, repack bool
	reserve, packing, peer, admitted    string
}

func PlanCommand(e *cli.Env) *cobra.Command {
	o := planFlags{moves: repackOptions{most: place.DefaultMoves, within: 2 * time.Second}}
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
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, e) },
	}
	f := c.Flags()
	f.StringVar(&o.spec, "spec", "", "place the workloads in `FILE` (- is standard input)")
	f.StringVar(&o.admitted, "admit", "",
		"find the fewest moves that make room for the workloads in `FILE` (- is standard input)")
	f.BoolVar(&o.restoring, "restore", false, "find moves that bring running workloads nearer to their memory")
	f.StringVar(&o.moves.running, "running", "",
		"read running workloads and their places from `FILE` (- is standard input)")
	f.IntVar(&o.moves.most, "moves", o.moves.most, "find at most `N` moves")
	f.DurationVar(&o.moves.within, "within", o.moves.within, "search about so long; the best found by then counts")
	f.BoolVar(&o.repack, "repack", false, "let running workloads move in --case")
	f.StringArrayVar(&o.cases, "case", nil, "run the trace in `FILE` (- is standard input); may be repeated")
	f.BoolVar(&o.admitAll, "admit-all", false, "take every split that fits, also one that does not pay")
	f.StringVar(&o.reserve, "reserve", "", "`CPUS` that no workload gets, such as 0,16")
	f.StringVar(&o.packing, "packing", "", "adaptive, pack or spread")
	f.StringVar(&o.peer, "peer", "homenode", "`NAME` in the lines of --case")
	f.StringVar(&o.from.Root, "root", "",
		"the host under `DIR`, or in a tar file that gather wrote (- is standard input)")
	f.StringVar(&o.from.Hwloc, "hwloc", "", "the host in `FILE`, written by lstopo --of xml")
	f.StringVar(&o.from.Synthetic, "synthetic", "", "a made-up `HOST`, such as \"package:2 node:2 core:8 pu:2\"")
	f.StringVar(&o.from.Host, "host", "", "the host in `JSONFILE`, written by topology --json")
	f.BoolVar(&o.asJSON, "json", false, "print JSON (schemas homenode-plan/3, homenode-repack/3, homenode-restore/3)")
	cli.SocketFlag(c, e)
	c.MarkFlagsMutuallyExclusive("root", "hwloc", "synthetic", "host", "case")
	c.MarkFlagsMutuallyExclusive("spec", "case", "admit", "restore")
	c.MarkFlagsMutuallyExclusive("running", "case")
	c.MarkFlagsMutuallyExclusive("reserve", "case")
	c.MarkFlagsMutuallyExclusive("json", "case")
	return c
}

// run places workloads on paper.
func (o *planFlags) run(c *cobra.Command, e *cli.Env) error {
	if len(o.cases) > 0 {
		return planCases(e, o.cases, replay.Options{Peer: o.peer, Must: o.admitAll, Packing: plan.Packing(o.packing),
			Repack: o.repack})
	}
	switch {
	case o.spec == "" && o.admitted == "" && !o.restoring:
		return cli.Usagef("nothing to plan: give one of --spec, --admit, --restore, --case")
	case o.repack:
		return cli.Usagef("--repack is for --case; --admit finds moves for a workload")
	case o.moves.running != "" && o.spec != "":
		return cli.Usagef("--running is for --admit and --restore")
	case o.moves.running == "-" && o.admitted == "-":
		return cli.Usagef("standard input can be --admit or --running, not both")
	}
	if err := o.moves.valid(); err != nil {
		return err
	}
	var specs []workload.Spec
	var err error
	if name := o.spec + o.admitted; name != "" {
		if specs, err = cli.ReadSpecs(e, name); err != nil {
			return err
		}
	}
	h, err := o.from.Read(e)
	if err != nil {
		return err
	}
	st, err := cli.IdleState(h, o.reserve, o.packing)
	if err != nil {
		return err
	}
	if o.spec == "" {
		return planMoves(c, e, o.from, &o.moves, st, specs, o.admitAll, o.asJSON)
	}
	results, l := planSpecs(st, specs, o.admitAll)
	if o.asJSON {
		err = cli.PrintJSON(e.Stdout, planJSON(results, l))
	} else {
		err = printPlans(e, results)
	}
	if err == nil && anyRefused(results) {
		return cli.ErrNo
	}
	return err
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
	return slices.ContainsFunc(results, func(p planned) bool { return !p.result.Placed() })
}

// PlanDocument is where the workloads of a specification would go.
type PlanDocument struct {
	Schema     string              `json:"schema"`
	Placements []api.PlanPlacement `json:"placements"` // placements after the last decision
	Decisions  []plan.Decision     `json:"decisions"`  // decisions, in the order of the workloads
}

func planJSON(results []planned, l *place.Ledger) PlanDocument {
	doc := PlanDocument{Schema: "homenode-plan/3", Placements: []api.PlanPlacement{}}
	for _, p := range l.Placements() {
		doc.Placements = append(doc.Placements, api.Planned(&p))
	}
	for i := range results {
		doc.Decisions = append(doc.Decisions, results[i].result.Decision)
	}
	return doc
}

func printPlans(e *cli.Env, results []planned) error {
	out := bufio.NewWriter(e.Stdout)
	p := e.Paint()
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
		fmt.Fprintf(w, "  home   %s, %s%s\n", p.Bold(words.HomeNodes(pl.Home, pl.Caches)), words.CPUs(pl.CPUs),
			memoryOf(pl))
	}
	see.Section(w, p, "why", words.Sentences(d.Reasons))
	see.PrintShortages(w, d.Shortages)
	see.PrintCandidates(w, p, d.Candidates, see.ShownCandidates)
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

func planCases(e *cli.Env, names []string, o replay.Options) error {
	switch o.Packing {
	case "", plan.Adaptive, plan.Pack, plan.Spread:
	default:
		return cli.Usagef("--packing %q; want adaptive, pack or spread", o.Packing)
	}
	out := bufio.NewWriter(view.JSON(view.Raw(e.Stdout)))
	enc := json.NewEncoder(out)
	start := time.Now()
	o.Now = func() int64 { return time.Since(start).Nanoseconds() }
	o.Answered = func(a *replay.Answer, _ *place.Ledger) error { return enc.Encode(a) }
	for _, name := range names {
		c, err := cli.FromFile(e, name, replay.Read)
		if err != nil {
			return err
		}
		if err := replay.Run(c, o); err != nil {
			return err
		}
	}
	return out.Flush()
}
