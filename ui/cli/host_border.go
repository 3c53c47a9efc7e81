package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
)

func hostBorderCommand(e *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "border [BORDER]",
		Short: "Show or move the border between dedicated and shared work",
		Long: `Which CPUs are for dedicated work alone and which for shared; a running daemon is
asked. Without BORDER it is shown. BORDER is

  any         all CPUs for both (the default)
  shared      no dedicated work on this host
  dedicated   no shared work on this host
  0-39        these CPUs for dedicated work, all others for shared
  50%         so many whole cores of each node for dedicated work

Offline work runs wherever no dedicated work does. The border moves only when no work
stands in the way, stays moved when the daemon is started again, and gives way to
border: in the configuration when that is changed.

Exit status: 1 work stands in the way; the line names it.`,
		Example: "  homenode host border\n  homenode host border 50%",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var want api.Border
			if len(args) == 1 {
				want.Border = plan.Border(args[0])
				if err := want.Border.Check(); err != nil || args[0] == "" {
					return usageErrorf("border %q; want any, shared, dedicated, CPUs such as 0-39, or a share such as 50%%", args[0])
				}
			}
			b, done, err := connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			now := api.Border{Border: plan.AnyClass}
			if want.Border != "" {
				now, err = b.Border(contextOf(c), want)
			} else if s, asked := b.Status(contextOf(c)); asked != nil {
				err = asked
			} else if s.Border != nil {
				now = *s.Border
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(e.Stdout, borderAnswer{"homenode-border/1", now})
			}
			if !now.Split {
				_, err = fmt.Fprintln(e.Stdout, "no border: all CPUs are for dedicated and shared work")
				return err
			}
			_, err = fmt.Fprintf(e.Stdout, "border %s: %s\n", now.Border, borderWords(now))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-border/1)")
	return c
}

type borderAnswer struct {
	Schema string `json:"schema"`
	api.Border
}

// borderWords says what a border leaves to dedicated work.
func borderWords(b api.Border) string {
	switch {
	case b.Border == plan.OnlyDedicated:
		return "no shared work on this host"
	case b.Dedicated == "":
		return "no CPU is for dedicated work"
	}
	return fmt.Sprintf("dedicated work has CPUs %s alone", b.Dedicated)
}
