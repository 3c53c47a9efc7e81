package see

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/report"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/paper"
)

// defaultReport is the file that a report is written into.
const defaultReport = "homenode-report.html"

func ReportCommand(e *cli.Env) *cobra.Command {
	var since, until, out, name string
	var asJSON bool
	var top int
	c := &cobra.Command{
		Use:   "report",
		Short: "Write a page about a period: locality, moves, refusals, advice",
		Long: `Writes one HTML file about a period, to send or print: locality over time, moves
and their gain, refusals with reasons, failures, requests of users, and the
workloads that lose most to remote memory, each with advice. The page loads
nothing and runs nothing.

It reads the daemon's flight recorder, also while that daemon runs, and its
history. The page marks times without a recording.

--since and --until are as in ` + "`homenode history`" + `: a time ago (30m, 12h, 2d), a time
of today, a date, or both. Exit status 1: nothing was recorded then.`,
		Example: `  homenode report
  homenode report --since 7d --out week.html
  homenode report --since 2026-11-22T08:00 --until 2026-11-22T18:00 --json
  homenode report --state-dir ./watched --out - | less`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if top < 1 || top > 1000 {
				return cli.Usagef("--top %d: want 1 to 1000", top)
			}
			now := time.Now()
			from, err := timeOf(since, now)
			if err != nil {
				return cli.Usagef("--since %w", err)
			}
			to, err := timeOf(until, now)
			if err != nil {
				return cli.Usagef("--until %w", err)
			}
			if !to.IsZero() && !from.Before(to) {
				return cli.Usagef("--since %s is not before --until %s", since, until)
			}
			if name == "" {
				name = cli.HostName(e.Root)
			}
			r, err := reportOf(e, c, from, to, name, top)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(e.Stdout, r)
			}
			page, err := paper.Report(r)
			if err != nil {
				return err
			}
			if err := cli.WriteMarkup(e, out, page); err != nil || out == "-" {
				return err
			}
			fmt.Fprintf(e.Stdout, "%s\n%s\n", r.Headline, e.Paint().Dim("written to "+words.Printable(out)))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&since, "since", "24h", "begin of the period, a `WHEN`")
	f.StringVar(&until, "until", "", "end of the period, a `WHEN`; now when not given")
	f.StringVar(&out, "out", defaultReport, "write the page into `FILE` (- is standard output)")
	f.StringVar(&name, "name", "", "`NAME` of the host on the page; this machine's when not given")
	f.IntVar(&top, "top", 10, "list the worst `N` workloads")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-report/2) and write no page")
	cli.StateDirFlag(c, e)
	c.MarkFlagsMutuallyExclusive("json", "out")
	return c
}

// report reads the period. Where there is no log, the history alone is told.
func reportOf(e *cli.Env, c *cobra.Command, from, to time.Time, name string, top int) (r report.Report, err error) {
	collect := report.New(from, to)
	ctx := cli.ContextOf(c)
	if err := pastEvents(e, ctx, c, api.HistoryQuery{Since: from, Until: to}, collect); err != nil {
		return r, err
	}
	var log cli.Records
	err = fs.ErrNotExist
	socket := c.Flags().Lookup("socket")
	asked := socket.Changed && cli.JournalDir(c) == "" // the log of this machine may be another daemon's
	if asked {                                         // as the demo keeps its own
		log, err = e.Records(filepath.Dir(socket.Value.String()), from)
	} else {
		log, err = e.Records(cli.JournalDir(c), from)
	}
	if asked && errors.Is(err, fs.ErrNotExist) {
		collect.Note(words.Because(words.ReportNoLog, socket.Value.String()))
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return r, cli.Forbidden(err)
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return r, err
	default:
		defer func() { err = errors.Join(err, log.Close()) }()
		defer cli.Waiting(e, "reading the recording")()
		if err := readRecords(ctx, log, collect); err != nil {
			return r, err
		}
	}
	if collect.Empty() || (!asked && collect.Unseen()) {
		if asked {
			if err := cli.SocketAnswers(c, e); err != nil {
				return r, err
			}
		}
		return r, cli.No(errors.New(nothingRecorded(from, to)))
	}
	return collect.Done(name, top)
}

func nothingRecorded(from, to time.Time) string {
	const form = "2006-01-02 15:04"
	period := "since " + from.Local().Format(form)
	if !to.IsZero() {
		period = "from " + from.Local().Format(form) + " to " + to.Local().Format(form)
	}
	return "report: nothing was recorded " + period +
		"; a daemon records while it runs, and `homenode history` lists older events"
}

// pastEvents gives the history to a report. It does without one that cannot be read.
func pastEvents(e *cli.Env, ctx context.Context, c *cobra.Command, q api.HistoryQuery,
	collect *report.Collector) error {
	ask := cli.ConnectJournal
	if dir := cli.JournalDir(c); dir != "" && !c.Flags().Changed("socket") { // a folder that may be another machine's
		ask = func(c *cobra.Command, e *cli.Env) (api.Backend, func() error, error) {
			if err := e.Journal(dir); err != nil {
				return nil, nil, err
			}
			return e.Local(ctx, dir)
		}
	}
	b, done, err := ask(c, e)
	var h api.History
	if err == nil {
		h, err = b.History(ctx, q)
		done()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		collect.History(h.Events)
	case !errors.Is(err, fs.ErrNotExist):
		collect.Note(words.Because(words.ReportNoHistory, cli.OneLine(err.Error())))
	}
	return nil
}

// readRecords gives a log to a report, which takes what is in its period.
func readRecords(ctx context.Context, log cli.Records, collect *report.Collector) error {
	for {
		if err := ctx.Err(); err != nil {
			return cli.Forbiddenf("interrupted")
		}
		checkpoint, line, err := log.Next()
		switch {
		case errors.Is(err, io.EOF):
			for _, n := range log.Notes() {
				collect.Note(n)
			}
			return nil
		case errors.Is(err, fs.ErrPermission):
			return cli.Forbidden(err)
		case err != nil:
			return err
		case checkpoint != nil:
			err = collect.Checkpoint(checkpoint)
		default:
			err = collect.Line(line)
		}
		if err != nil {
			collect.Note(words.Because(words.ReportBadFile, err.Error()))
		}
	}
}
