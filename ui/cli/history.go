package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/plan"
)

func historyCommand(e *Env) *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:     "history",
		Short:   "Show what homenode saw, decided, changed and failed to change",
		Example: "  homenode history --limit 20\n  homenode history --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageErrorf("--limit %d: want 0 (all) or more", limit)
			}
			b, done, err := connectJournal(c, e)
			if err != nil {
				return err
			}
			defer done()
			h, err := b.History(contextOf(c), limit)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(e.Stdout, h)
			}
			if len(h.Events) == 0 {
				fmt.Fprintln(e.Stdout, "nothing has happened yet")
			}
			printEvents(e.text(e.Stdout), e.paint(), h.Events, true)
			return nil
		},
	}
	c.Flags().IntVar(&limit, "limit", 100, "newest `N` events; 0 is all that are kept")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-history/1)")
	stateDirFlag(c, e)
	return c
}

func printEvents(w io.Writer, p paint, events []plan.Event, withWorkload bool) {
	for _, ev := range events {
		mark := " "
		if ev.Error {
			mark = p.warn("!")
		}
		who := ""
		if withWorkload && ev.Workload != "" {
			who = p.bold(string(ev.Workload)) + " "
		}
		const indent = len("2006-01-02 15:04:05 ! ")
		fmt.Fprintf(w, "%s %s %s\n", p.dim(ev.Time.Local().Format("2006-01-02 15:04:05")), mark,
			p.hang(fmt.Sprintf("%-8s %s%s", ev.Kind, who, ev.Text), indent))
	}
}
