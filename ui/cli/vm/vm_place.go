package vm

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

func vmPlaceCommand(e *cli.Env) *cobra.Command {
	var v vmHost
	var nodes, class string
	var near []string
	var maxNodes int
	var dryRun bool
	c := &cobra.Command{
		Use:   "place NAME",
		Short: "Place a guest that something else defined",
		Long: `Gives any guest a home: as a dedicated guest, with one CPU for each vCPU and bound
memory, or as a shared one. Nothing else in the definition changes, and homenode
vm release restores it, to the byte. A dedicated guest comes home at its next
start.

--near places it near a device or workload. The definition keeps the setting, for
later homes too; --near none removes it.

Exit status 1: it does not fit, or another program has bound it; the line gives
the reason.`,
		Example: `  homenode vm place web1 --class dedicated
  homenode vm place web1 --near device=eth1,policy=required
  homenode vm define --dry-run --flavor g1.large --name app \
    --synthetic "node:2 core:8 pu:2" > app.xml
  homenode vm place app --class shared --nodes 1 --dry-run --running app.xml \
    --synthetic "node:2 core:8 pu:2"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			to, err := topology.ParseNodeSet(nodes)
			if err != nil {
				return cli.Usagef("--nodes: %w", err)
			}
			if class != string(workload.Dedicated) && class != string(workload.Shared) {
				return cli.Usagef("--class %q; want dedicated or shared", class)
			}
			if maxNodes < 0 {
				return cli.Usagef("--max-nodes %d; want 0 or more", maxNodes)
			}
			var wishes []workload.Near
			if !slices.Equal(near, []string{"none"}) {
				if wishes, err = cli.ParseNear(near); err != nil {
					return err
				}
			}
			return v.changeOne(c, e, args[0], dryRun, func(s *existing, g *guest.Guest) error {
				if err := notNovas(g); err != nil {
					return err
				}
				ours := g.Placed || g.Next != nil
				switch {
				case ours && c.Flags().Changed("class") && g.Spec.Class != workload.Class(class):
					return cli.Nof("%s is homenode's already, and %s; homenode vm release %s lets it go", g.Name,
						g.Class(), g.Name)
				case near != nil && g.Transient:
					return cli.Nof("%s has no definition, and --near is stored there", g.Name)
				case wishes != nil && g.Spec.Tier == workload.BatchTier:
					return cli.Usagef("--near: %s is a batch guest, which has no home to be near something", g.Name)
				case near != nil:
					s.locate(wishes)
					s.absent(e, wishes)
					g.Wish(wishes)
				}
				if !ours {
					g.Spec.Class = workload.Class(class)
					if g.Spec.Class == workload.Dedicated {
						g.Spec.CPUs = g.Most
					}
				}
				if maxNodes > 0 {
					g.Spec.MaxNodes = maxNodes
				}
				return move(c, e, s, g, to, false, dryRun)
			})
		},
	}
	v.flags(c, e)
	c.Flags().StringVar(&nodes, "nodes", "", "only on these `NODES`, such as 1 or 0-1")
	c.Flags().StringVar(&class, "class", string(workload.Dedicated),
		"its `CLASS`: dedicated or shared; that of one homenode placed stays")
	c.Flags().IntVar(&maxNodes, "max-nodes", 0, "`N` nodes at most; 0 leaves that to the engine")
	cli.NearFlag(c.Flags(), &near)
	c.Flags().Lookup("near").Usage += "; none for nothing"
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say what would be")
	return c
}
