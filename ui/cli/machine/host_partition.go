package machine

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
)

func hostPartitionCommand(e *cli.Env) *cobra.Command {
	var asJSON, dryRun bool
	c := &cobra.Command{
		Use:   "partition [PARTITION]",
		Short: "Show or change which CPUs are for dedicated work",
		Long: `Shows or changes which CPUs are for dedicated work alone and which for shared
work. Asks the running daemon. PARTITION is

  any         all CPUs for both (the default)
  shared      no dedicated work on this host
  dedicated   no shared work on this host
  0-39        these CPUs for dedicated work, all others for shared
  50%         so many whole cores of each node for dedicated work

Batch work runs wherever no dedicated work does. The partition changes only
when no work stands in the way, stays when the daemon is started again, and
gives way to partition: in the configuration when that is changed.

Exit status: 1 work stands in the way; the line names it.`,
		Example: "  homenode host partition\n  homenode host partition 50% --dry-run",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var want api.Partition
			if len(args) == 1 {
				want.Partition, want.DryRun = plan.Partition(args[0]), dryRun
				if err := want.Partition.Check(); err != nil || args[0] == "" {
					return cli.Usagef("partition %q; want any, shared, dedicated, CPUs such as 0-39, or a share such "+
						"as 50%%", args[0])
				}
			}
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			now := api.Partition{Partition: plan.AnyClass}
			if want.Partition != "" {
				now, err = b.Partition(cli.ContextOf(c), want)
			} else if s, asked := b.Status(cli.ContextOf(c)); asked != nil {
				err = asked
			} else if s.Partition != nil {
				now = *s.Partition
			}
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, partitionAnswer{"homenode-partition/1", now})
			}
			if !now.Split {
				_, err = fmt.Fprintln(e.Stdout, "no partition: all CPUs are for dedicated and shared work")
				return err
			}
			line := fmt.Sprintf("partition %s: %s", now.Partition, see.PartitionWords(now))
			if want.DryRun {
				line = "would be " + line + "; nothing was changed"
			}
			_, err = fmt.Fprintln(e.Stdout, line)
			return err
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say whether it could be so")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-partition/1)")
	cli.StateDirFlag(c, e)
	return c
}

// partitionAnswer is the partition of the host.
type partitionAnswer struct {
	Schema string `json:"schema"`
	api.Partition
}
