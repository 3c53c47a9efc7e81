package try

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
	"github.com/homenode/homenode/ui/view"
)

// repackOptions is what the command line says of moves.
type repackOptions struct {
	running string
	most    int
	within  time.Duration
}

// firstSteps is the budget of the first round; each further round has four times
// as much, so that no more than a third of the time is spent on rounds before the last.
const firstSteps = 20_000

// mostSteps ends the rounds whatever time is left.
const mostSteps = 1 << 28

// rounds searches with growing budgets until the search is complete or the time
// is up; the search itself has no clock. An answer that a budget did not cut off is the
// same on every machine.
func (o *repackOptions) rounds(try func(steps int) (cutOff bool)) {
	start := time.Now()
	for steps := firstSteps; steps < mostSteps; steps *= 4 {
		began := time.Now()
		if !try(steps) {
			return
		}
		// The next round takes four times as long.
		if time.Since(start)+4*time.Since(began) > o.within {
			return
		}
	}
}

func (o *repackOptions) valid() error {
	if o.most < 1 || o.most > 1000 {
		return cli.Usagef("--moves %d; want 1 to 1000", o.most)
	}
	if o.within < 0 || o.within > time.Hour {
		return cli.Usagef("--within %v; want 0s to 1h", o.within)
	}
	return nil
}

// runningState is the ledger that moves start from: a file of running workloads,
// or what homenode has placed on this machine, or, on another host, nothing.
func runningState(c *cobra.Command, e *cli.Env, from cli.TopologySource, o *repackOptions,
	st plan.State) (*place.Ledger, []place.Runner, error) {
	if o.running != "" {
		return cli.ReadRunning(e, o.running, st)
	}
	if from != (cli.TopologySource{}) || e.Local == nil {
		return place.NewLedger(st), nil, nil
	}
	b, done, err := cli.Connect(c, e)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	status, err := b.Status(cli.ContextOf(c))
	if err != nil {
		return nil, nil, err
	}
	return cli.RunningNow(status, st)
}

// planMoves answers --admit, and --restore when there is nothing to admit.
func planMoves(c *cobra.Command, e *cli.Env, from cli.TopologySource, o *repackOptions, st plan.State,
	specs []workload.Spec, must, asJSON bool) error {
	l, running, err := runningState(c, e, from, o, st)
	if err != nil {
		return err
	}
	if specs == nil {
		r := restore(l, running, o)
		if asJSON {
			return cli.PrintJSON(e.Stdout, restoreJSON(&r, l))
		}
		return printRestoring(e, &r)
	}
	for i := range specs {
		if slices.ContainsFunc(l.Placements(), func(p plan.Placement) bool { return p.Workload == specs[i].ID }) {
			return cli.Usagef("%s: it runs already", specs[i].ID)
		}
	}
	all := admit(l, running, specs, o, must)
	if asJSON {
		err = cli.PrintJSON(e.Stdout, repackJSON(all, l))
	} else {
		err = printAdmissions(e, all)
	}
	if err == nil && !admittedAll(all) {
		return cli.ErrNo
	}
	return err
}

// admission is one workload to admit with what was found.
type admission struct {
	spec   workload.Spec
	best   place.Repacking
	nearer *place.Repacking // moves that bring it nearer than it comes without; nil for none
}

// admit finds moves for each workload in turn, on top of those before it.
func admit(l *place.Ledger, running []place.Runner, specs []workload.Spec, o *repackOptions, must bool) []admission {
	var out []admission
	for _, s := range specs {
		req := place.Request{Spec: s, Must: must}
		a := admission{spec: s}
		o.rounds(func(steps int) bool {
			a.best = l.Repack(req, place.RepackOptions{Running: running, Moves: o.most, Steps: steps})
			return a.best.CutOff
		})
		if access := l.Access(&a.best.Result.Placement); a.best.Admitted() && len(a.best.Moves) == 0 &&
			s.Class != workload.Batch && access > 1 {
			o.rounds(func(steps int) bool {
				r := l.Repack(req, place.RepackOptions{Running: running, Moves: o.most, Steps: steps,
					Access: access - 0.01})
				if r.Admitted() {
					a.nearer = &r
				}
				return r.CutOff
			})
		}
		for i := range a.best.Moves {
			l.Commit(a.best.Moves[i].To)
		}
		if a.best.Admitted() {
			l.Commit(a.best.Result.Placement)
			running = append(running, place.Runner{Spec: s})
		}
		out = append(out, a)
	}
	return out
}

func admittedAll(all []admission) bool {
	return !slices.ContainsFunc(all, func(a admission) bool { return !a.best.Admitted() })
}

type RepackDocument struct {
	Schema     string              `json:"schema"`     // homenode-repack/3
	Workloads  []api.RepackAnswer  `json:"workloads"`  // answers, one for each workload that was asked about
	Placements []api.PlanPlacement `json:"placements"` // placements when all moves are done
}

func repackJSON(all []admission, l *place.Ledger) RepackDocument {
	doc := RepackDocument{Schema: "homenode-repack/3", Workloads: []api.RepackAnswer{},
		Placements: []api.PlanPlacement{}}
	for i := range all {
		w := api.Repacked(all[i].spec.ID, &all[i].best)
		if n := all[i].nearer; n != nil {
			w.Nearer = new(api.Repacked(all[i].spec.ID, n))
		}
		doc.Workloads = append(doc.Workloads, w)
	}
	for _, p := range l.Placements() {
		doc.Placements = append(doc.Placements, api.Planned(&p))
	}
	return doc
}

func printAdmissions(e *cli.Env, all []admission) error {
	out := bufio.NewWriter(e.Stdout)
	p := e.Paint()
	for i := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		a := &all[i]
		memory := ""
		if a.spec.Memory > 0 {
			memory = ", " + words.Size(a.spec.Memory)
		}
		fmt.Fprintf(out, "%s  %s, %s%s\n", p.Bold(a.spec.Name), a.spec.Class, words.Count(a.spec.CPUs, "vCPU"), memory)
		printRepacking(out, p, &a.best)
		if a.nearer != nil {
			fmt.Fprintf(out, "\n%s\n", p.Bold("With moves it would come nearer to its memory:"))
			printRepacking(out, p, a.nearer)
		}
	}
	return out.Flush()
}

func printRepacking(w io.Writer, p view.Paint, r *place.Repacking) {
	switch api.RepackOutcome(r) {
	case "refused":
		fmt.Fprintf(w, "  %s\n", p.Warn("refused, with moves as without"))
	case "fits":
		fmt.Fprintln(w, "  fits without moves")
	default:
		fmt.Fprintf(w, "  fits after %s, %s\n", words.Count(len(r.Moves), "move"), words.Size(r.KiB))
	}
	printMoves(w, p, r.Moves)
	if pl := &r.Result.Placement; r.Admitted() {
		fmt.Fprintf(w, "  home   %s, %s%s\n", p.Bold(words.HomeNodes(pl.Home, pl.Caches)), words.CPUs(pl.CPUs),
			memoryOf(pl))
	}
	printWorse(w, p, r.Worse)
	see.Section(w, p, "why", words.Sentences(slices.Concat(r.Reasons, r.Result.Decision.Reasons)))
}

func printMoves(w io.Writer, p view.Paint, moves []place.Move) {
	for i := range moves {
		m := &moves[i]
		aside, memory := "", "no memory"
		if m.KiB > 0 {
			memory = words.Size(m.KiB) + " of memory"
		}
		if m.Temporary {
			aside = ", for a while"
		}
		fmt.Fprintf(w, "  %d. %s  %s to %s, %s to %s, %s%s\n", i+1, p.Bold(string(m.Workload)),
			words.HomeNodes(m.From.Home, m.From.Caches), words.HomeNodes(m.To.Home, m.To.Caches),
			words.CPUs(m.From.CPUs), m.To.CPUs, memory, aside)
		for _, reason := range m.Reasons {
			fmt.Fprintf(w, "       %s\n", reason)
		}
	}
}

func printWorse(w io.Writer, p view.Paint, worse []place.Worsening) {
	var lines []string
	for _, x := range worse {
		lines = append(lines, fmt.Sprintf("%s: %s %.2f, was %.2f", x.Workload, x.Term, x.After, x.Before))
	}
	see.Section(w, p, "worse for it (one unit: a vCPU whose every access costs one local access more)", lines)
}

type RestoreDocument struct {
	Schema   string           `json:"schema"`    // homenode-restore/3
	Remote   []restoreRemote  `json:"remote"`    // workloads off their memory, the farthest first
	Moves    []api.RepackMove `json:"moves"`     // moves, in the order to make them
	MovedKiB topology.KiB     `json:"moved_kib"` // memory that all moves take along, KiB
	// what all moves gain: vCPUs times local accesses saved for each access
	Gain       float64             `json:"gain"`
	Most       float64             `json:"most"`       // proven upper bound of what can be gained, in the unit of gain
	CutOff     bool                `json:"cut_off"`    // whether the search ended at its limit
	Steps      int                 `json:"steps"`      // steps of the search
	Worse      []place.Worsening   `json:"worse"`      // workloads that fare worse afterwards
	Reasons    []words.Reason      `json:"reasons"`    // reasons, the weightiest first
	Placements []api.PlanPlacement `json:"placements"` // placements when all moves are done
}

type restoreRemote struct {
	Workload workload.ID `json:"workload"`       // ID of the workload
	Access   float64     `json:"access"`         // mean cost of its accesses now, where all local is 1
	Restored float64     `json:"restored"`       // the same after the moves
	Least    float64     `json:"least"`          // the least that any place on this host allows
	Stay     string      `json:"stay,omitempty"` // why it must not move; absent when it may
}

func restore(l *place.Ledger, running []place.Runner, o *repackOptions) place.Restoring {
	var out place.Restoring
	o.rounds(func(steps int) bool {
		out = l.Restore(place.RepackOptions{Running: running, Moves: o.most, Steps: steps})
		return out.CutOff
	})
	for i := range out.Moves {
		l.Commit(out.Moves[i].To)
	}
	return out
}

func restoreJSON(r *place.Restoring, l *place.Ledger) RestoreDocument {
	doc := RestoreDocument{
		Schema: "homenode-restore/3", Remote: []restoreRemote{}, Moves: api.RepackMoves(r.Moves), MovedKiB: r.KiB,
		Gain: r.Gain, Most: r.Most,
		CutOff: r.CutOff, Steps: r.Steps, Worse: r.Worse, Reasons: r.Reasons, Placements: []api.PlanPlacement{},
	}
	if doc.Worse == nil {
		doc.Worse = []place.Worsening{}
	}
	for _, x := range r.Remote {
		doc.Remote = append(doc.Remote, restoreRemote(x))
	}
	for _, p := range l.Placements() {
		doc.Placements = append(doc.Placements, api.Planned(&p))
	}
	return doc
}

func printRestoring(e *cli.Env, r *place.Restoring) error {
	out := bufio.NewWriter(e.Stdout)
	p := e.Paint()
	if len(r.Remote) > 0 {
		t := view.NewTable("WORKLOAD", ">ACCESS COST", ">AFTER", ">LEAST", "").Drops("LEAST")
		for _, x := range r.Remote {
			t.Row(string(x.Workload), fmt.Sprintf("%.2f", x.Access), fmt.Sprintf("%.2f", x.Restored),
				fmt.Sprintf("%.2f", x.Least), x.Stay)
		}
		t.Print(out, p)
		fmt.Fprintln(out)
	}
	printMoves(out, p, r.Moves)
	printWorse(out, p, r.Worse)
	if lines := words.Sentences(r.Reasons); len(r.Remote)+len(r.Moves) > 0 {
		see.Section(out, p, "why", lines)
	} else {
		for _, line := range lines {
			fmt.Fprintln(out, line)
		}
	}
	return out.Flush()
}
