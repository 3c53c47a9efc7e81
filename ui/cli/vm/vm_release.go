package vm

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
)

func vmReleaseCommand(e *cli.Env) *cobra.Command {
	var v vmHost
	var dryRun bool
	c := &cobra.Command{
		Use:   "release NAME",
		Short: "Take homenode's bindings and mark off a guest",
		Long: `Take the CPU set, the memory binding and homenode's mark off a guest's
definition: an adopted guest is defined again as it was before. A guest that
runs keeps its bindings until its next start.`,
		Example: `  homenode vm release web1
  homenode vm release web1 --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return v.changeOne(c, e, args[0], dryRun, func(s *existing, g *guest.Guest) error {
				switch {
				case !g.Placed && g.Next == nil:
					return cli.Nof("%s is not homenode's", g.Name)
				case dryRun:
					_, err := fmt.Fprintf(e.Stdout, "%s would be released from %s, %s.\n", g.Name,
						words.Nodes(g.Home.Placement.Home), words.CPUs(g.Home.Placement.CPUs))
					return err
				}
				step := plan.Step{Kind: plan.SetNext, Workload: g.Spec.ID, Target: plan.Target{Kind: guest.Kind},
					From: g.Home.Next()}
				if err := s.change(c.Context(), []plan.Step{step}, "homenode vm release."); err != nil {
					return err
				}
				when := ""
				if g.Running {
					when = " at its next start"
				}
				_, err := fmt.Fprintf(e.Stdout, "%s is released%s.\n", g.Name, when)
				return err
			})
		},
	}
	v.flags(c, e)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be")
	return c
}
