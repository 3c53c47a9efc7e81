package change

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
)

func DaemonCommand(e *cli.Env) *cobra.Command {
	var o cli.DaemonOptions
	var show bool
	var mode string // in which the first look was
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Watch this machine and, in enforce mode, keep every workload at home",
		Long: `The daemon scans the machine every period, decides where each workload belongs,
and reports it. In observe mode, the default, it changes nothing. In enforce mode
it sets CPU sets and moves memory, after writing the old values to its journal.`,
		Example: `  homenode daemon                    # scan and recommend
  homenode daemon --listen 4663      # the same, and a page that shows it
  homenode daemon --mode enforce     # act; undone by homenode undo --all`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("socket") {
				o.Socket, _ = c.Flags().GetString("socket")
				if err := cli.CheckSocket(o.Socket); err != nil {
					return err
				}
			}
			if o.Mode != "" && o.Mode != "observe" && o.Mode != "enforce" {
				return cli.Usagef("--mode %q: want observe or enforce", o.Mode)
			}
			// The bounds are the configuration's, which are checked there.
			if c.Flags().Changed("period") && (o.Period < 100*time.Millisecond || o.Period > time.Hour) {
				return cli.Usagef("--period %v: want 100ms to 1h", o.Period)
			}
			if show {
				o.FirstLook = func(s api.Status, period time.Duration) {
					mode = s.Mode
					see.PrintStatus(e, s)
					if s.OneNode() {
						offerDemo(cli.ContextOf(c), e)
					}
					printWatching(e, o.Socket, period)
				}
			}
			err := e.Daemon(c.Context(), o)
			switch {
			case !show || err != nil:
			case mode == "observe":
				fmt.Fprintln(e.Stderr, "homenode: ended; in observe mode it changed nothing by itself")
			default:
				history := e.Called() + " history"
				for _, f := range [][2]string{{"socket", o.Socket}, {"state-dir", o.StateDir}} {
					if f[1] != "" {
						history += " --" + f[0] + " " + words.Printable(f[1])
					}
				}
				fmt.Fprintf(e.Stderr, "homenode: ended; `%s` lists its actions\n", history)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Mode, "mode", "", "observe (default) or enforce")
	f.StringVar(&o.Config, "config", "", "configuration `file` (YAML)")
	f.StringVar(&o.StateDir, "state-dir", "", "`folder` of the journal, default "+e.DefaultState)
	f.DurationVar(&o.Period, "period", 0, "time between two scans (default 2s)")
	f.StringVar(&o.Listen, "listen", "",
		"serve the page, read only, at an `address`: a port of 127.0.0.1 such as 4663, or IP:PORT")
	f.BoolVar(&show, "status", false, "print the status table after the first scan")
	cli.SocketFlag(c, e)
	return c
}

// demoIn is how long the demo waits for a key that keeps it away: long enough to read the lines above it.
const demoIn = 8 * time.Second

// offerDemo shows what homenode is for to who runs it where there is nothing to bring home: on a terminal the
// demo opens by itself, in a pipe its command is printed.
func offerDemo(ctx context.Context, e *cli.Env) {
	command := e.Called() + " demo"
	if e.Key == nil || e.Open == nil {
		fmt.Fprintf(e.Stdout, "\nThe main job, on a simulated server of 8 NUMA nodes: `%s`\n", command)
		return
	}
	fmt.Fprintf(e.Stdout,
		"\nThe main job, on a simulated server of 8 NUMA nodes, opens in %.0f s.\nEnter opens it now (`%s`), any "+
			"other key stays here, Ctrl-C ends.\n", demoIn.Seconds(), command)
	if key, pressed := e.Key(ctx, demoIn); ctx.Err() != nil || (pressed && key != '\r' && key != '\n') {
		return
	}
	if err := e.Open(ctx, "demo"); err != nil && ctx.Err() == nil {
		fmt.Fprintf(e.Stderr, "homenode: demo: %s\n", words.Printable(err.Error()))
	}
}

// printWatching tells who started a daemon in a terminal that it goes on, and how it ends.
func printWatching(e *cli.Env, socket string, period time.Duration) {
	status := e.Called() + " status"
	if socket != "" {
		status += " --socket " + words.Printable(socket)
	}
	fmt.Fprintf(e.Stderr, "\nwatching every %s; Ctrl-C ends; `%s` in another terminal shows it again\n",
		words.Duration(period), status)
}
