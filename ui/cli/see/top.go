package see

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/tui"
	"github.com/homenode/homenode/ui/view"
)

func TopCommand(e *cli.Env) *cobra.Command {
	var once bool
	o := TopOptions(e)
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch nodes, workloads, moves and decisions on one screen",
		Long: `Shows the NUMA nodes side by side, moves in progress, every workload with its
home and its locality now and by plan, and the newest decisions with their
reasons. q ends it. ? lists the keys: sort, filter, pause, one workload in
detail, explain, and, with permission, move and undo, each after a question.

It needs a running daemon, and reconnects when the daemon restarts. NO_COLOR
turns colours off.`,
		Example: `  homenode top
  homenode top --sort local --filter shop
  homenode top --once | head -20`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case o.Sort != "" && !slices.Contains(SortKeys, o.Sort):
				return cli.Usagef("--sort %q: want %s", o.Sort, strings.Join(SortKeys, ", "))
			case o.Every < 100*time.Millisecond || o.Every > time.Hour:
				return cli.Usagef("--every %v: want 100ms to 1h", o.Every)
			}
			on, dumb := view.Terminal(e.Stdout), e.Getenv("TERM") == "dumb"
			if in, ok := e.Stdin.(*os.File); !once && (dumb || on == nil || !ok || view.Terminal(in) == nil) {
				why := "standard input and output are no terminal"
				if dumb {
					why = "this terminal is dumb (TERM) and cannot be drawn on"
				}
				return cli.Forbiddenf("top: %s; `homenode top --once` prints one frame, `homenode status --watch` "+
					"goes on", why)
			}
			client, err := cli.Dial(c, e)
			if err != nil {
				return err
			}
			defer client.Close()
			s, err := client.Status(cli.ContextOf(c))
			if err != nil {
				return err
			}
			p := e.Paint()
			o.Colour, o.ASCII = p.On, !view.UTF8(e.Getenv)
			if once {
				return printTop(c, e, client, o, s, p.Width)
			}
			client.Waiting = nil
			return tui.Run(cli.ContextOf(c), client, o, s, e.Stdin, on, os.Environ())
		},
	}
	f := c.Flags()
	f.BoolVar(&once, "once", false, "print one frame with every workload, and end")
	f.DurationVar(&o.Every, "every", time.Second, "time between two refreshes")
	f.StringVar(&o.Sort, "sort", SortKeys[0], "order by `COLUMN`: "+strings.Join(SortKeys, ", "))
	f.StringVar(&o.Filter, "filter", "", "only workloads whose name, class or state has this `TEXT`")
	cli.SocketFlag(c, e)
	return c
}

// TopOptions is how top shows things.
func TopOptions(e *cli.Env) tui.Options {
	o := tui.Options{
		Label: func(w *api.Workload) string { return cli.Label(*w) },
		Explain: func(x api.Explanation, p view.Paint) string {
			return e.Text(p, func(w io.Writer, p view.Paint) { printExplanation(w, p, x, 5) })
		},
	}
	for _, key := range SortKeys {
		o.Orders = append(o.Orders, tui.Order{Name: key, Compare: orders[key]})
	}
	return o
}

// printTop prints one frame with everything in it.
func printTop(c *cobra.Command, e *cli.Env, client *api.Client, o tui.Options, s api.Status, width int) error {
	width = cmp.Or(width, 120)
	m := tui.New(o, width, 0)
	m.Take(tui.Seen{Status: s, At: time.Now()})
	m.Take(tui.Measured(cli.ContextOf(c), client))
	h, err := client.History(cli.ContextOf(c), api.HistoryQuery{Limit: 100})
	if err != nil {
		return err
	}
	m.Take(tui.Happened(h.Events))
	_, err = fmt.Fprintln(e.Stdout, m.Frame())
	return err
}
