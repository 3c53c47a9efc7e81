package try

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/cli/see"
	"github.com/homenode/homenode/ui/tui"
	"github.com/homenode/homenode/ui/view"
)

// demoStories is what a demo can show, by the keys 1 to 4.
var demoStories = []struct{ name, title, what string }{
	{"kernel", "kernel alone", "the kernel's own NUMA balancing; homenode only watches"},
	{"homenode", "Homenode", "the same work, brought home by homenode"},
	{"noisy", "noisy neighbour", "a guest fills a node, then the next one"},
	{"batch", "batch on idle CPUs", "batch work runs on the CPUs that online work leaves"},
}

func demoNames() (names []string) {
	for _, s := range demoStories {
		names = append(names, s.name)
	}
	return names
}

func DemoCommand(e *cli.Env) *cobra.Command {
	var o cli.DemoOptions
	var record string
	var serve bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show homenode at work on a simulated host; nothing here is touched",
		Long: `Runs the daemon on a simulated host of guests, pods, services and batch work.
Only the hardware and the work are made up; every decision is the daemon's own.

Online work starts badly placed, about 40 % local, and comes home within two
minutes. On a terminal this is ` + "`homenode top`" + `: the keys 1 to 4 choose a story, q
leaves, and a summary follows. The link in its first line opens the page in a
browser (docs/page.md). In a pipe, or with --serve, the demo serves the page and
a socket for top, status, explain, history, move and undo until Ctrl-C. Its clock
starts with the first viewer.

It needs no root and changes nothing on this machine: it writes a socket and its
flight log in a temporary folder, removes that at the end, and serves its page
on 127.0.0.1 only. The same seed brings the same work.

--record writes pictures of ` + "`homenode top`" + ` on such a host as SVG, the same bytes
for the same seed, and ends.`,
		Example: `  homenode demo
  homenode demo --nodes 2 --story noisy
  homenode demo --serve
  homenode demo --record docs`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case o.Nodes < 1 || o.Nodes > 64:
				return cli.Usagef("--nodes %d: want 1 to 64", o.Nodes)
			case !(o.Speed >= 0.1 && o.Speed <= 100):
				return cli.Usagef("--speed %v: want 0.1 to 100", o.Speed)
			case o.Story != "" && !slices.Contains(demoNames(), o.Story):
				return cli.Usagef("--story %q: want %s", o.Story, strings.Join(demoNames(), ", "))
			}
			if o.Story == "" {
				o.Story = "homenode"
				if o.Nodes == 1 { // all its memory is local
					o.Story = "batch"
				}
			}
			if record != "" {
				return recordDemo(cli.ContextOf(c), e, o, record)
			}
			summary := ""
			o.Ended = func(story string, s api.Status) { summary += storyLines(story, &s) }
			var err error
			if in, out := terminalOf(e); out != nil && !serve {
				err = topDemo(cli.ContextOf(c), e, o, in, out)
			} else {
				o.Ready = func(p cli.DemoPlace) { printDemo(e, &o, p) }
				err = e.Demo(cli.ContextOf(c), o)
			}
			if err == nil {
				fmt.Fprint(e.Stdout, summary)
				fmt.Fprintf(e.Stderr,
					"homenode: the demo ended and left nothing behind; `%s status` shows this machine\n", e.Called())
			}
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 8, "`N` NUMA nodes of 24 CPUs and 64 GiB, 1 to 64")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all that happens")
	f.StringVar(&o.Story, "story", "", "`NAME` of the story to start with: "+strings.Join(demoNames(), ", ")+
		"; homenode when not given, batch with one node")
	f.BoolVar(&serve, "serve", false, "serve the page and the socket without a screen, as in a pipe")
	f.StringVar(&record, "record", "", "write pictures of it into `FOLDER` and end")
	f.Float64Var(&o.Speed, "speed", 1, "simulated seconds in a second, 0.1 to 100")
	return c
}

// screen is the terminal that a screen can be drawn on; nil, nil where there is none.
func terminalOf(e *cli.Env) (in io.Reader, out *os.File) {
	stdin, ok := e.Stdin.(*os.File)
	if !ok || view.Terminal(stdin) == nil || e.Getenv("TERM") == "dumb" {
		return nil, nil
	}
	return stdin, view.Terminal(e.Stdout)
}

// topDemo shows a demo as top does, until the user leaves.
func topDemo(ctx context.Context, e *cli.Env, o cli.DemoOptions, in io.Reader, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan string)
	ready := make(chan cli.DemoPlace, 1)
	ended := make(chan error, 1)
	o.Next, o.Ready = next, func(p cli.DemoPlace) { ready <- p }
	go func() { ended <- e.Demo(ctx, o) }()
	var place cli.DemoPlace
	select {
	case place = <-ready:
	case err := <-ended:
		return err
	}
	client, err := api.Dial(place.Socket)
	if err != nil {
		return err
	}
	defer client.Close()
	first, err := client.Status(ctx)
	if err == nil {
		t := see.TopOptions(e)
		t.Every = time.Second
		t.Colour = e.Paint().On
		t.ASCII = !view.UTF8(e.Getenv)
		demoScreen(&t, o.Story, place.Page)
		t.Choose = func(ctx context.Context, story int) {
			select {
			case next <- demoStories[story].name:
			case <-ctx.Done():
			}
		}
		err = tui.Run(ctx, client, t, first, in, out, os.Environ())
	}
	stopped := ctx.Err() != nil
	cancel()
	if bad := <-ended; bad != nil || stopped {
		return bad
	}
	return err
}

// demoScreen has top show a demo.
func demoScreen(t *tui.Options, story, page string) {
	t.Title, t.Link = "homenode demo", page
	for i, s := range demoStories {
		t.Stories = append(t.Stories, tui.Story{Title: s.title, What: s.what})
		if s.name == story {
			t.Story = i
		}
	}
}

// printDemo says where a demo can be opened.
func printDemo(e *cli.Env, o *cli.DemoOptions, p cli.DemoPlace) {
	socket := " --socket " + words.Shell(p.Socket)
	fmt.Fprintf(e.Stdout,
		"A simulated host of %s, seed %d. Nothing on this machine is touched.\nIts clock starts with the first "+
			"viewer.\n\n", words.Count(o.Nodes, "NUMA node"), o.Seed)
	// Each is short enough for a line of 80 columns, so that it can be copied.
	fmt.Fprintln(e.Stdout, "Watch it with")
	if p.Page != "" {
		fmt.Fprintf(e.Stdout, "  %s\n", p.Page)
	}
	for _, command := range []string{"top", "status", "history --follow"} {
		fmt.Fprintf(e.Stdout, "  %s %s%s\n", e.Called(), command, socket)
	}
	fmt.Fprintln(e.Stdout, "\nCtrl-C ends it.")
}

// storyLines is the summary of a story.
func storyLines(story string, s *api.Status) string {
	t := s.Trend
	if t == nil {
		return ""
	}
	title := story
	for _, x := range demoStories {
		if x.name == story {
			title = strings.ToUpper(x.title[:1]) + x.title[1:]
		}
	}
	lines := fmt.Sprintf("%s, %s on %s:\n", title, words.Lasts(s.Time.Sub(t.Since)),
		words.Count(len(s.Nodes), "NUMA node"))
	line := func(format string, a ...any) { lines += "  " + fmt.Sprintf(format, a...) + "\n" }
	if now, _ := s.Locality(); s.OneNode() {
		line("one NUMA node: all memory is local")
	} else if now != nil && t.First != nil {
		text := fmt.Sprintf("online work: %.0f → %.0f %% of memory accesses local", 100**t.First, 100**now)
		if at, ok := t.Reached(goodLocality); ok && *t.First < goodLocality {
			text += fmt.Sprintf("; %.0f %% after %s", 100*goodLocality, words.Lasts(at))
		}
		line("%s", text)
	}
	switch {
	case s.Mode != "enforce":
		line("page moves by homenode: none, it only watched")
	case t.Moves == 0:
		line("page moves: none")
	default:
		held := int64(0)
		for i := range s.Workloads {
			held += s.Workloads[i].MemoryKiB << 10
		}
		line("page moves: %d, %s of %s in use", t.Moves, words.Bytes(t.MovedBytes), words.Bytes(held))
	}
	if s.Sharing != nil && len(s.Sharing.Nodes) > 0 {
		batch, cpus := 0.0, 0
		for i := range s.Sharing.Nodes {
			batch += s.Sharing.Nodes[i].Used
		}
		for i := range s.Nodes {
			set, _ := topology.ParseCPUSet(s.Nodes[i].CPUs)
			cpus += set.Len()
		}
		line("batch work: %.0f of %d CPUs busy at the end", batch, cpus)
		if most, known := mostWaited(s.Sharing); known {
			line("important online work: waited for a CPU in %.0f %% of the last ten seconds", 100*most)
		}
	}
	return lines
}

// mostWaited is the share of the last ten seconds in which important work waited for a CPU: that of
// the workload that waited most.
func mostWaited(s *api.Sharing) (most float64, known bool) {
	for i := range s.Important {
		x := &s.Important[i]
		if x.Value != nil && (x.Signal == workload.PSI || x.Signal == workload.Schedstat) {
			most, known = max(most, *x.Value), true
		}
	}
	return most, known
}

// goodLocality is the local share that a demo says when it was reached.
const goodLocality = 0.98

// What a recording shows: the first minute and a half, in which all comes home, on a screen as wide
// as a README is, in 20 seconds.
const (
	recordWidth  = 100
	recordHeight = 30
	recordEvery  = 3
	recordFrames = 30
)

// recordEach is how long a frame is shown.
const recordEach = 20 * time.Second / recordFrames

// recordDemo writes two pictures of top, in dark and in light: one screen, and how work comes home.
func recordDemo(ctx context.Context, e *cli.Env, o cli.DemoOptions, dir string) error {
	t := see.TopOptions(e)
	t.Colour, t.Zone = true, time.UTC
	demoScreen(&t, o.Story, "http://127.0.0.1:4663/")
	m := tui.New(t, recordWidth, recordHeight)
	var frames []string
	seen := 0
	o.See = func(s api.Status, events []plan.Event) bool {
		seen++
		if seen == 1 {
			m.Take(tui.Allowed(true))
		}
		m.Take(tui.Seen{Status: s, At: s.Time})
		m.Take(tui.Happened(events))
		if seen%recordEvery == 1 {
			frames = append(frames, m.Frame())
		}
		return len(frames) < recordFrames
	}
	if err := e.Demo(ctx, o); err != nil {
		return err
	}
	still := frames[len(frames)/3 : len(frames)/3+1]
	for _, picture := range []struct {
		name   string
		frames []string
		shades tui.Shades
	}{{"top.svg", still, tui.Dark}, {"top-light.svg", still, tui.Light}, {"top-moving.svg", frames, tui.Dark},
		{"top-moving-light.svg", frames, tui.Light}} {
		file := filepath.Join(dir, picture.name)
		if err := os.WriteFile(file,
			[]byte(tui.SVG(picture.frames, recordEach, recordWidth, recordHeight, picture.shades)), 0o644); err != nil {
			return cli.Usagef("--record: %w", err)
		}
		fmt.Fprintf(e.Stdout, "wrote %s\n", words.Printable(file))
	}
	return nil
}
