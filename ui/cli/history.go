package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/ui/view"
)

func historyCommand(e *Env) *cobra.Command {
	var asJSON, follow bool
	var limit int
	c := &cobra.Command{
		Use:     "history",
		Short:   "Show what homenode placed, changed and failed to change, and who asked for it",
		Example: "  homenode history --limit 20\n  homenode history --json\n  homenode history --follow",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case limit < 0:
				return usageErrorf("--limit %d: want 0 (all) or more", limit)
			case follow && asJSON:
				return usageErrorf("--follow and --json do not go together")
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
			if len(h.Events) == 0 && !follow {
				fmt.Fprintln(e.Stdout, "nothing has happened yet")
			}
			printEvents(e.Stdout, e.paint(), h.Events, true)
			if follow {
				return followEvents(c, e, b, h.Events)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&follow, "follow", false, "then print each as it happens, until interrupted")
	c.Flags().IntVar(&limit, "limit", 100, "newest `N` events; 0 is all that are kept")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-history/1)")
	stateDirFlag(c, e)
	return c
}

// followEvents prints events after those shown as they come, until the user or the
// daemon ends it.
func followEvents(c *cobra.Command, e *Env, b api.Backend, shown []plan.Event) error {
	client, ok := b.(*api.Client)
	if !ok {
		return &exitError{exitNo, fmt.Errorf("no daemon is running that --follow could follow")}
	}
	var since uint64
	if len(shown) > 0 {
		since = shown[len(shown)-1].Seq
	}
	return client.Events(contextOf(c), since, func(ev plan.Event) error {
		printEvents(e.Stdout, e.paint(), []plan.Event{ev}, true)
		if o, ok := e.Stdout.(*view.Output); ok {
			return o.Err()
		}
		return nil
	})
}

func printEvents(w io.Writer, p view.Paint, events []plan.Event, withWorkload bool) {
	for _, ev := range view.PlainAll(events) {
		mark := " "
		if ev.Error {
			mark = p.Warn("!")
		}
		who := ""
		if withWorkload && ev.Workload != "" {
			who = p.Bold(string(ev.Workload)) + " "
		}
		const indent = len("2006-01-02 15:04:05 ! ")
		fmt.Fprintf(w, "%s %s %s\n", p.Dim(ev.Time.Local().Format("2006-01-02 15:04:05")), mark,
			p.Hang(fmt.Sprintf("%-8s %s%s", ev.Kind, who, ev.Text), indent))
	}
}
