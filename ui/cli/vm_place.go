package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func vmPlaceCommand(e *Env) *cobra.Command {
	var v vmHost
	var nodes, class string
	var maxNodes int
	var dryRun bool
	c := &cobra.Command{
		Use:   "place NAME",
		Short: "Place a guest that something else defined",
		Long: `Give a guest a home, whoever wrote its definition: as a dedicated guest, each
vCPU with a CPU of its own and its memory bound, or as a shared one. Nothing else
in the definition changes, and homenode vm release takes it off again, to the
byte. A dedicated guest comes home at its next start.

Exit status 1 means that it does not fit, or that somebody else has bound it; the
line says why.`,
		Example: `  homenode vm place web1 --class dedicated
  homenode vm define --dry-run --flavor g1.large --name app \
    --synthetic "node:2 core:8 pu:2" > app.xml
  homenode vm place app --class shared --nodes 1 --dry-run --running app.xml \
    --synthetic "node:2 core:8 pu:2"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			to, err := topology.ParseNodeSet(nodes)
			if err != nil {
				return usageErrorf("--nodes: %w", err)
			}
			if class != string(workload.Dedicated) && class != string(workload.Shared) {
				return usageErrorf("--class %q; want dedicated or shared", class)
			}
			if maxNodes < 0 {
				return usageErrorf("--max-nodes %d; want 0 or more", maxNodes)
			}
			s, err := v.readToChange(c, e, dryRun)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			g, err := s.find(args[0])
			if err != nil {
				return err
			}
			if err := notNovas(g); err != nil {
				return err
			}
			if (g.Placed || g.Next != nil) && g.Spec.Class != workload.Class(class) {
				return &exitError{exitNo, fmt.Errorf("%s is homenode's already, and %s; homenode vm release %s lets it go", g.Name, g.Class(), g.Name)}
			}
			if !g.Placed && g.Next == nil {
				g.Spec.Class = workload.Class(class)
				if g.Spec.Class == workload.Dedicated {
					g.Spec.CPUs = g.Most
				}
			}
			if maxNodes > 0 {
				g.Spec.MaxNodes = maxNodes
			}
			return move(c, e, s, g, to, false, dryRun)
		},
	}
	v.flags(c, e)
	c.Flags().StringVar(&nodes, "nodes", "", "only on these `NODES`, such as 1 or 0-1")
	c.Flags().StringVar(&class, "class", string(workload.Dedicated), "its `CLASS`: dedicated or shared")
	c.Flags().IntVar(&maxNodes, "max-nodes", 0, "`N` nodes at most; 0 leaves that to the engine")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be")
	return c
}
