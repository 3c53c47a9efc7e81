package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func shareUpgradeCommand(e *cli.Env) *cobra.Command {
	var asJSON, dryRun, noWait bool
	var object string
	c := &cobra.Command{
		Use: "upgrade", Short: "Replace the scheduler for batch work in the kernel by a newer one", Args: cobra.NoArgs,
		Long: `Puts the scheduler that this homenode brings in the place of the one that runs
(after an upgrade of homenode, which leaves that alone). The new one is loaded and
verified first. Then the old one is taken off and the new one put on: for some
milliseconds none runs, and batch work is the kernel's own scheduler's. For the
time of share.probation it is watched: when the kernel ends it, or important work
waits more than before, the old one comes back by itself.

Exit status: 0 it holds, or nothing is newer, 1 it did not hold and the old one is
back, or --dry-run says that it cannot be, 3 no daemon runs, no scheduler is loaded, or not permitted.`,
		Example: "  homenode share upgrade\n  homenode share upgrade --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			b, done, err := cli.Connect(c, e)
			if err != nil {
				return err
			}
			defer done()
			source, ok := b.(api.UpgradeSource)
			if !ok {
				return cli.Forbiddenf("no daemon is running; start one with `homenode daemon --mode enforce`")
			}
			order := api.UpgradeOrder{DryRun: dryRun}
			if object != "" {
				if order.Object, err = filepath.Abs(object); err != nil {
					return err
				}
			}
			up, err := source.UpgradeScheduler(cli.ContextOf(c), order)
			if err != nil {
				return err
			}
			if up.Trial != nil && !noWait {
				if !asJSON {
					tellSwap(e.Stdout, &up)
				}
				if up.Trial, err = trialEnd(cli.ContextOf(c), b, up.Trial); err != nil {
					return err
				}
			}
			if !asJSON {
				up = view.PlainAll(up)
			}
			switch {
			case asJSON:
				err = cli.PrintJSON(e.Stdout, up)
			case up.Why != "":
			case up.From == up.To:
				_, err = fmt.Fprintf(e.Stdout, "nothing is newer: version %s runs\n", up.From)
			case dryRun:
				_, err = fmt.Fprintf(e.Stdout, "version %s would take the place of %s; nothing was changed\n", up.To,
					up.From)
			case up.Trial == nil:
			case noWait:
				tellSwap(e.Stdout, &up)
			case up.Trial.Held:
				_, err = fmt.Fprintf(e.Stdout,
					"it holds and is kept: important work waited at most %s of the time, %s before\n",
					percentOf(up.Trial.Worst), percentOf(up.Trial.Before))
			}
			if err == nil && up.Why != "" {
				return cli.No(errors.New(up.Why))
			}
			if t := up.Trial; err == nil && t != nil && t.Ended != nil && !t.Held {
				return cli.Nof("version %s did not hold: %s Version %s runs again", t.To, t.Why, t.From)
			}
			return err
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	c.Flags().BoolVar(&noWait, "no-wait", false, "return once it is swapped; share status shows the progress")
	c.Flags().StringVar(&object, "object", "", "load the BPF object in this `file` instead (root only)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema homenode-share-upgrade/1)")
	cli.SocketFlag(c, e)
	return c
}

func percentOf(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func tellSwap(w io.Writer, up *api.Upgraded) {
	fmt.Fprintf(w, "version %s runs, after %s; for %.1f ms none ran. It is watched for %s\n", up.To, up.From,
		up.Trial.GapMS, words.Duration(up.Trial.Until.Sub(up.Trial.Began)))
}

// trialEnd waits until a probation is over.
func trialEnd(ctx context.Context, b api.Backend, trial *api.ShareTrial) (*api.ShareTrial, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, errors.New("interrupted; the daemon watches it on")
		case <-time.After(time.Second):
		}
		s, err := b.Status(ctx)
		switch {
		case err != nil:
			return nil, err
		case s.Sharing == nil || s.Sharing.Scheduler == nil:
			return nil, cli.No(errors.New("sharing was turned off meanwhile"))
		}
		k := s.Sharing.Scheduler
		if u := k.Upgrade; u != nil && u.Began.Equal(trial.Began) {
			return u, nil
		}
		if k.Trial == nil || !k.Trial.Began.Equal(trial.Began) {
			return nil, cli.Nof("it was unloaded meanwhile. %s", view.PlainAll(k.Why))
		}
	}
}

// schedulerLines tell how the kernel's scheduler for batch work is.
func schedulerLines(w io.Writer, p view.Paint, k *api.ShareScheduler) {
	if k == nil {
		return
	}
	state := "not loaded"
	if k.Enabled {
		state = "enabled, version " + k.Version
		if k.Generation != "" {
			state += " (" + k.Generation + ")"
		}
		if k.Since != nil {
			state += ", since " + k.Since.Local().Format("2006-01-02 15:04:05")
		}
	}
	fmt.Fprintf(w, "\n%s %s. %s\n", p.Bold("scheduler:"), state, k.Why)
	if k.Enabled && k.Newest != "" && k.Newest != k.Version {
		fmt.Fprintf(w, "  Version %s is newer: `homenode share upgrade` loads it.\n", k.Newest)
	}
	if k.Threads > 0 {
		fmt.Fprintf(w, "  Threads of batch work that are not with it yet: %d.\n", k.Threads)
	}
	if k.Untiered > 0 {
		fmt.Fprintf(w, "  Cgroups over its limit of tiers: %d. They run as tier normal.\n", k.Untiered)
	}
	if t := k.Trial; t != nil {
		fmt.Fprintf(w, "  On probation until %s, after version %s; for %.1f ms none ran.\n",
			t.Until.Local().Format("15:04:05"), t.From, t.GapMS)
	}
	if t := k.Upgrade; t != nil && !t.Held {
		fmt.Fprintf(w, "  Version %s did not hold: %s\n", t.To, t.Why)
	}
	if k.End != nil && k.Ended != nil {
		what, how := "ended it last", k.End.String()
		if k.End.Kind == share.EndRefused {
			what, how = "last refused it", k.End.Text
		}
		fmt.Fprintf(w, "  The kernel %s at %s: %s.\n", what, k.Ended.Local().Format("2006-01-02 15:04:05"), how)
	}
	if k.Loads > 0 {
		fmt.Fprintf(w, "  Loaded %s within the last hour, of %d at most.\n", words.Count(k.Loads, "time"), k.MostLoads)
	}
	if len(k.Counters) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := view.NewTable("COUNTER", ">SINCE IT WAS LOADED")
	for _, c := range k.Counters {
		t.Row(c.Name, fmt.Sprint(c.Value))
	}
	t.Print(w, p)
}
