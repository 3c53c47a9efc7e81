package try

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

// replayResult is what a replay of the flight recorder found.
type replayResult struct {
	Schema string            `json:"schema"`            // homenode-replay/2
	Policy string            `json:"policy"`            // policy that was asked for
	Replay *control.Replayed `json:"replay,omitempty"`  // what was decided again; absent with --what-if
	WhatIf []balance.WhatIf  `json:"what_if,omitempty"` // what other policies would have done; with --what-if
	Torn   bool              `json:"torn"`              // whether a file of the log ends within an entry
}

func ReplayCommand(e *cli.Env) *cobra.Command {
	var policy string
	var whatIf []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "replay [LOG]",
		Short: "Replay recorded decisions, or try other policies on them",
		Long: `Reads the flight recorder's log, decides again on everything that happened, and
compares each decision with the recorded one, byte by byte. Exit status 1: they
differ. LOG is a file or a folder; the default is that of this user's daemon.

--what-if lets other policies decide on the same loads and says how much time
would have been lost to waiting under each, by homenode's own model.

Policies: homenode (with the settings of the log), homes-kept (no balancing),
eager (no window, no rest, no ban, whatever gains more than it costs).`,
		Example: `  timeout -s INT 10 homenode daemon --state-dir ./watched --socket ./w.sock
  homenode replay ./watched/flight
  homenode replay ./watched/flight --what-if homes-kept,eager
  homenode replay /var/lib/homenode/flight     # of the service`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			defer e.Reading()()
			path := ""
			if len(args) > 0 {
				path = args[0]
			}
			log, err := e.Flight(path)
			if errors.Is(err, fs.ErrPermission) {
				return cli.Forbidden(err)
			}
			if err != nil {
				return cli.Usagef("replay: %w", err)
			}
			defer log.Close()
			r := replayResult{Schema: "homenode-replay/2", Policy: policy}
			if c.Flags().Changed("what-if") || policy != balance.Policies[0] {
				err = r.compare(c, log, append([]string{policy}, whatIf...))
			} else {
				err = r.again(c, log)
			}
			if err != nil {
				return cli.Usagef("replay: %w", err)
			}
			r.Torn = log.Torn()
			if err := r.print(e, asJSON); err != nil {
				return err
			}
			if r.Replay != nil && r.Replay.Differ > 0 {
				return cli.ErrNo
			}
			return nil
		},
	}
	c.Flags().StringVar(&policy, "policy", balance.Policies[0], "`POLICY` to decide by: "+strings.Join(balance.Policies,
		", "))
	c.Flags().StringSliceVar(&whatIf, "what-if", nil, "compare with these `POLICIES`, separated by commas")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-replay/2)")
	return c
}

// next stops when the command is interrupted.
func next(c *cobra.Command, log cli.Flight) (control.Logged, error) {
	if err := cli.ContextOf(c).Err(); err != nil {
		return control.Logged{}, err
	}
	return log.Next()
}

func (r *replayResult) again(c *cobra.Command, log cli.Flight) error {
	out, err := control.Replay(func() (control.Logged, error) { return next(c, log) }, nil)
	if err == nil && out.Scans == 0 {
		err = errors.New("the log holds no scan of the host")
	}
	r.Replay = &out
	return err
}

func (r *replayResult) compare(c *cobra.Command, log cli.Flight, policies []string) error {
	runs, err := balance.NewCompare(policies...)
	if err != nil {
		return err
	}
	if _, err := control.Replay(func() (control.Logged, error) { return next(c, log) }, runs.Add); err != nil {
		return err
	}
	r.WhatIf = runs.Results()
	if r.WhatIf[0].Ticks == 0 {
		return errors.New("the log holds no scan of the host")
	}
	return nil
}

func (r *replayResult) print(e *cli.Env, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(e.Stdout, r)
	}
	p := e.Paint()
	if r.Replay != nil {
		printReplayed(e.Stdout, p, r.Replay, r.Policy)
	} else {
		t := view.NewTable("POLICY", ">TICKS", ">HOMES CHANGED", ">TO MOVE", ">LOST TO WAITING")
		for _, w := range r.WhatIf {
			t.Row(w.Policy, fmt.Sprint(w.Ticks), fmt.Sprint(w.Changes), cli.KiB(w.Bytes>>10),
				fmt.Sprintf("%.3f CPUs", w.Lost))
		}
		t.Print(e.Stdout, p)
	}
	if r.Torn {
		fmt.Fprintln(e.Stdout, p.Dim("a file ends within a tick: its daemon was killed, or still writes"))
	}
	return nil
}

func printReplayed(w io.Writer, p view.Paint, r *control.Replayed, policy string) {
	verdict := "all decided as recorded"
	if r.Differ > 0 {
		verdict = p.Warn(fmt.Sprintf("%d decided otherwise than recorded", r.Differ))
	}
	fmt.Fprintf(w, "%s, %s among them, by %s, %s to %s: %s\n", words.Count(r.Inputs, "input"),
		words.Count(r.Scans, "scan"), policy, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339), verdict)
	if r.First != "" {
		fmt.Fprintf(w, "  first: %s\n", r.First)
	}
	for _, c := range r.Changes {
		fmt.Fprintf(w, "  %s %s\n", c.At.Format(time.RFC3339), c.Words)
	}
}
