package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/tui"
)

// DemoOptions is the command line of demo.
type DemoOptions struct {
	Nodes int     // of the simulated host, 1 to 64
	Seed  uint64  // of all that happens there
	Speed float64 // simulated seconds in a second
	// Ready is called once there is something to see.
	Ready func(DemoPlace)
	// See is called with what status tells each simulated second, and the newest events, as fast
	// as can be and with nothing served, until it returns false; nil is not.
	See func(api.Status, []plan.Event) bool
}

// DemoPlace is where a demo can be looked at.
type DemoPlace struct {
	Socket string // of its daemon
	Page   string // link to its page; "" without one
}

// Demo runs a simulated host under the daemon's loop until ctx ends.
type Demo func(ctx context.Context, o DemoOptions) error

func demoCommand(e *Env) *cobra.Command {
	var o DemoOptions
	var record string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show homenode at work on a simulated host; nothing here is touched",
		Long: `Runs the daemon on a simulated host full of work: guests, pods, services and
processes come, go, grow and get busy, and the daemon keeps each at home. Only
the hardware and the work are made up; every decision is the daemon's own.

A page shows it in the browser (docs/page.md). It needs no root and changes
nothing on this machine: all that it writes is a socket in a temporary folder,
which is removed at the end, and its page listens on 127.0.0.1 only. Ctrl-C ends it.
Top, status, explain, history, move and undo work on it with --socket. The same
seed brings the same work.

--record writes pictures of ` + "`homenode top`" + ` on such a host as SVG, the same bytes
for the same seed, and ends.`,
		Example: `  homenode demo
  homenode demo --nodes 2 --speed 4
  homenode demo --record docs`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case o.Nodes < 1 || o.Nodes > 64:
				return usageErrorf("--nodes %d: want 1 to 64", o.Nodes)
			case !(o.Speed >= 0.1 && o.Speed <= 100):
				return usageErrorf("--speed %v: want 0.1 to 100", o.Speed)
			}
			if record != "" {
				return recordDemo(contextOf(c), e, o, record)
			}
			o.Ready = func(p DemoPlace) { printDemo(e, &o, p) }
			err := e.Demo(contextOf(c), o)
			if err == nil {
				fmt.Fprintln(e.Stderr, "homenode: ended; nothing of it is left")
			}
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 8, "`N` NUMA nodes of 24 CPUs and 64 GiB, 1 to 64")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all that happens")
	f.StringVar(&record, "record", "", "write pictures of it into `FOLDER` and end")
	f.Float64Var(&o.Speed, "speed", 1, "simulated seconds in a second, 0.1 to 100")
	return c
}

// printDemo says where a demo can be looked at.
func printDemo(e *Env, o *DemoOptions, p DemoPlace) {
	socket := " --socket " + words.Shell(p.Socket)
	fmt.Fprintf(e.Stdout, "A simulated host of %s, seed %d. Nothing on this machine is touched.\n\n", words.Count(o.Nodes, "NUMA node"), o.Seed)
	// Each is short enough for a line of 80 columns, so that it can be copied.
	fmt.Fprintln(e.Stdout, "Look at it with")
	if p.Page != "" {
		fmt.Fprintf(e.Stdout, "  %s\n", p.Page)
	}
	for _, command := range []string{"top", "status", "history --follow"} {
		fmt.Fprintf(e.Stdout, "  %s %s%s\n", e.program(), command, socket)
	}
	fmt.Fprintln(e.Stdout, "\nCtrl-C ends it.")
}

// What a recording shows: the first seconds of the house, in which most comes home, on a screen as
// wide as a README is.
const recordWidth, recordHeight, recordFrom, recordFrames = 100, 28, 2, 30

// recordDemo writes two pictures of top: the screen as it is at the end, and how it came there.
func recordDemo(ctx context.Context, e *Env, o DemoOptions, dir string) error {
	t := topOptions(e)
	t.Colour, t.Zone = true, time.UTC
	m := tui.New(t, recordWidth, recordHeight)
	var frames []string
	seen := 0
	o.See = func(s api.Status, events []plan.Event) bool {
		if seen++; seen == 1 {
			m.Take(tui.Allowed(true))
		}
		m.Take(tui.Seen{Status: s, At: s.Time})
		m.Take(tui.Happened(events))
		if seen > recordFrom {
			frames = append(frames, m.Frame())
		}
		return len(frames) < recordFrames
	}
	if err := e.Demo(ctx, o); err != nil {
		return err
	}
	for _, picture := range []struct {
		name   string
		frames []string
	}{{"top.svg", frames[len(frames)-1:]}, {"top-moving.svg", frames}} {
		file := filepath.Join(dir, picture.name)
		if err := os.WriteFile(file, []byte(tui.SVG(picture.frames, time.Second, recordWidth, recordHeight)), 0o644); err != nil {
			return usageErrorf("--record: %w", err)
		}
		fmt.Fprintf(e.Stdout, "wrote %s\n", words.Printable(file))
	}
	return nil
}
