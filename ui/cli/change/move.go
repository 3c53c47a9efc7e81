package change

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func MoveCommand(e *cli.Env) *cobra.Command {
	var nodes string
	var dryRun, cancel, asJSON bool
	c := &cobra.Command{
		Use:   "move NAME (--to NODES | --cancel)",
		Short: "Move a workload with its memory to other nodes, or cancel that",
		Long: `Gives a workload that homenode placed a home on the nodes named with --to,
dedicated work too: CPUs first, then memory, at the pace and with the pauses of
every move. From several nodes homenode takes the best ones. The daemon must run
in enforce mode. This command returns at once; ` + "`homenode status`" + ` shows the
progress.

Without a daemon a process named by its PID is moved at once, with its threads and
children, as migratepages(8) and taskset(1) do: your own, as root any process. Its
old values go into the journal of your state folder first; ` + "`homenode undo pid:PID`" + `
restores them.

--cancel stops a page move that is in progress or waits, and holds the workload:
moved pages stay, and homenode leaves it alone until ` + "`homenode resume NAME`" + ` or
another move.

` + cli.NamesText + `

For guests of libvirt use ` + "`homenode vm move`" + `. Exit status 1: no room, or homenode
may not move it; the line gives the reason.`,
		Example: "  homenode move /system.slice/redis.service --to 1 --dry-run\n" +
			"  homenode move /system.slice/redis.service --to 1\n  homenode move /system.slice/redis.service " +
			"--cancel\n  homenode move 1234 --to 0",
		Args: cli.OneWorkload(e),
		RunE: func(c *cobra.Command, args []string) error {
			order := api.MoveOrder{ID: workload.ID(args[0]), DryRun: dryRun, Cancel: cancel}
			if cancel && nodes != "" {
				return cli.Usagef("--to and --cancel do not go together")
			}
			if !cancel && nodes == "" {
				return cli.Usagef("say --to NODES or --cancel")
			}
			var err error
			if order.To, err = topology.ParseNodeSet(nodes); err != nil {
				return cli.Usagef("--to %w", err)
			}
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			a, err := b.Move(cli.ContextOf(c), order)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, a)
			}
			printMove(e, a, dryRun)
			return nil
		},
	}
	c.Flags().StringVar(&nodes, "to", "", "`NODES` of the new home, such as 1 or 0-1")
	c.Flags().BoolVar(&cancel, "cancel", false, "stop its page move and leave it as it is")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-move/3)")
	cli.StateDirFlag(c, e)
	return c
}

func printMove(e *cli.Env, a api.MoveAnswer, dryRun bool) {
	w, a := e.Stdout, view.PlainAll(a)
	would := func(does, would string) string {
		if dryRun {
			return would
		}
		return does
	}
	switch a.Outcome {
	case plan.Cancelled:
		fmt.Fprintf(w, "%s: %s", a.Workload, would("its move is cancelled", "its move would be cancelled"))
		if m := a.Move; m != nil {
			fmt.Fprintf(w, " after %s of %s", words.Bytes(max(0, m.Moved)), words.Bytes(max(0, m.Planned)))
		}
		fmt.Fprintf(w, "; `homenode resume %s` goes on.\n", a.Workload)
		return
	case plan.Kept:
		fmt.Fprintf(w, "%s stays on %s, %s; %s.\n", a.Workload, words.Nodes(a.To), words.CPUs(a.CPUs),
			would("what of its memory lies elsewhere is tried now",
				"what of its memory lies elsewhere would be tried now"))
		return
	}
	does := "goes"
	if a.Move != nil {
		does = "is moved"
	}
	if a.From.Equal(a.To) && a.FromCPUs.Equal(a.CPUs) {
		fmt.Fprintf(w, "%s is on %s, %s, already.\n", a.Workload, words.Nodes(a.To), words.CPUs(a.CPUs))
	} else {
		fmt.Fprintf(w, "%s %s from %s, %s, to %s, %s.\n", a.Workload, would(does, "would go"), words.Nodes(a.From),
			words.CPUs(a.FromCPUs), words.Nodes(a.To), words.CPUs(a.CPUs))
	}
	if m := a.Move; m != nil { // it has ended
		if all := max(m.Planned, m.Moved+m.Refused); all == 0 {
			fmt.Fprint(w, "  None of its memory had to move")
		} else {
			fmt.Fprintf(w, "  %s of %s of its memory moved", words.Bytes(max(0, m.Moved)), words.Bytes(all))
		}
		if m.Refused > 0 {
			fmt.Fprintf(w, ", %s did not: %s", words.Bytes(m.Refused), m.Why)
		}
		fmt.Fprintf(w, ".\n  `homenode undo %s` gives it back its CPUs; its memory stays.\n", a.Workload)
		return
	}
	for _, s := range a.Steps {
		if s.Kind == plan.MovePages && s.Bytes > 0 {
			fmt.Fprintf(w, "  %s of its memory %s, in %.0f s or more.\n", words.Bytes(max(0, s.Bytes)),
				would("move", "would move"), s.Cost.Seconds)
		}
	}
	for _, r := range a.Decision.Reasons {
		fmt.Fprintf(w, "  %s\n", r)
	}
}
