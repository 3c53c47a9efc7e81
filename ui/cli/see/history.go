package see

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

func HistoryCommand(e *cli.Env) *cobra.Command {
	var asJSON, follow bool
	var limit int
	var since, until string
	var kinds []string
	c := &cobra.Command{
		Use:   "history [NAME]",
		Short: "Show what homenode placed, changed and failed to change, and who asked for it",
		Long: `Prints the newest events, of all workloads or of one. --since and --until take a
time ago (30m, 12h, 2d), a time of today (10:30), a date (2026-11-22) or both
(2026-11-22T10:30). When the CPUs of a workload changed several times, such as
those of batch work, and nothing else happened to it between, the last change
has the number of all; --json and --follow show each.

` + cli.NamesText,
		Example: "  homenode history -n 20\n  homenode history redis.service --since 1h\n  homenode history --kind " +
			"move,undo --since 2026-11-22T10:00 --until 12:00\n" +
			"  homenode history --follow --json      # an event a line",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			q := api.HistoryQuery{Limit: limit}
			switch {
			case limit < 0:
				return cli.Usagef("--limit %d: want 0 (all) or more", limit)
			case follow && until != "":
				return cli.Usagef("--follow and --until do not go together")
			case len(args) > 0:
				q.Workload = workload.ID(args[0])
				if err := cli.CheckName(args[0]); err != nil {
					return err
				}
			}
			for _, kind := range kinds {
				if !slices.Contains(plan.EventKinds, plan.EventKind(kind)) {
					return cli.Usagef("--kind %q: want %s", kind, cli.Listed(plan.EventKinds))
				}
				q.Kinds = append(q.Kinds, plan.EventKind(kind))
			}
			now := time.Now()
			var err error
			if q.Since, err = timeOf(since, now); err != nil {
				return cli.Usagef("--since %w", err)
			}
			if q.Until, err = timeOf(until, now); err != nil {
				return cli.Usagef("--until %w", err)
			}
			if !q.Until.IsZero() && !q.Since.Before(q.Until) {
				return cli.Usagef("--since %s is not before --until %s", since, until)
			}
			b, done, err := cli.ConnectJournal(c, e)
			if err != nil {
				return err
			}
			defer done()
			h, err := b.History(cli.ContextOf(c), q)
			if err != nil {
				return err
			}
			q.Workload = h.Workload
			show := func(ev plan.Event) { printEvents(e.Stdout, e.Paint(), []plan.Event{ev}, true) }
			switch lines := json.NewEncoder(view.JSON(view.Raw(e.Stdout))); {
			case asJSON && follow:
				lines.SetEscapeHTML(false)
				show = func(ev plan.Event) { lines.Encode(ev) }
			case asJSON:
				return cli.PrintJSON(e.Stdout, h)
			case len(h.Events) == 0 && !follow:
				text := "nothing has happened yet"
				if q.Workload != "" || q.Kinds != nil || !q.Since.IsZero() || !q.Until.IsZero() {
					text = "no such events"
				}
				fmt.Fprintln(e.Stdout, text)
			}
			events := h.Events
			if !follow {
				events = folded(events)
			}
			for _, ev := range events {
				show(ev)
			}
			if follow {
				return followEvents(c, e, b, q, h.Events, show)
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&follow, "follow", false, "go on printing events as they happen, until interrupted")
	f.IntVarP(&limit, "limit", "n", 100, "newest `N` events; 0 is all that are kept")
	f.StringVar(&since, "since", "", "events of this `WHEN` and later")
	f.StringVar(&until, "until", "", "events before this `WHEN`")
	f.StringSliceVar(&kinds, "kind", nil, "events of this `KIND` alone: "+cli.Listed(plan.EventKinds)+
		"; may be repeated")
	f.BoolVar(&asJSON, "json", false, "print JSON (schema homenode-history/2); with --follow an event a line")
	cli.StateDirFlag(c, e)
	return c
}

// times are the forms that a time may be written in, in the time zone of the user but for
// the first.
var times = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04",
	time.DateOnly}

// timeOf reads a time: a while before now, a time of now's day, a date, or both. "" is none.
func timeOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, ok := while(text); ok {
		return now.Add(-ago), nil
	}
	for _, form := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(form, text); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()),
				nil
		}
	}
	for _, form := range times {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{},
		fmt.Errorf("%q: want a time ago (30m, 12h, 2d), a time of today (10:30) or a date (2026-11-22, "+
			"2026-11-22T10:30)", text)
}

// while reads 90s, 1h30m, 2d and 1w.
func while(text string) (time.Duration, bool) {
	if n, unit := strings.CutSuffix(text, "d"); unit {
		if days, err := strconv.ParseUint(n, 10, 16); err == nil {
			return time.Duration(days) * 24 * time.Hour, true
		}
	}
	if n, unit := strings.CutSuffix(text, "w"); unit {
		if weeks, err := strconv.ParseUint(n, 10, 12); err == nil {
			return time.Duration(weeks) * 7 * 24 * time.Hour, true
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// followEvents prints events after those shown as they come, until the user or the
// daemon ends it.
func followEvents(c *cobra.Command, e *cli.Env, b api.Backend, q api.HistoryQuery, shown []plan.Event,
	show func(plan.Event)) error {
	client, ok := b.(*api.Client)
	if !ok {
		return cli.Nof("no daemon is running that --follow could follow")
	}
	var since uint64
	if len(shown) > 0 {
		since = shown[len(shown)-1].Seq
	}
	return client.Events(cli.ContextOf(c), since, func(ev plan.Event) error {
		if q.Has(&ev) {
			show(ev)
		}
		if o, ok := e.Stdout.(*view.Output); ok {
			return o.Err()
		}
		return nil
	})
}

// leastFolded is how many changes of the CPUs of a workload, one after the other, become one line.
const leastFolded = 3

// folded returns events in which changes of the CPUs of a workload are one where nothing else happened to it between
// them: batch work gets other CPUs many times an hour.
func folded(events []plan.Event) []plan.Event {
	runs := map[workload.ID][]int{}
	drop := make([]bool, len(events))
	last := map[int]string{} // added to the text of the newest of a run
	end := func(id workload.ID) {
		run := runs[id]
		delete(runs, id)
		if len(run) < leastFolded {
			return
		}
		for _, i := range run[:len(run)-1] {
			drop[i] = true
		}
		since := events[run[0]].Time.Local().Format(time.TimeOnly)
		last[run[len(run)-1]] = fmt.Sprintf(" (%d changes since %s)", len(run), since)
	}
	for i := range events {
		ev := &events[i]
		if !setsCPUs(ev) {
			end(ev.Workload)
			continue
		}
		runs[ev.Workload] = append(runs[ev.Workload], i)
	}
	for id := range maps.Clone(runs) {
		end(id)
	}
	var out []plan.Event
	for i, ev := range events {
		if !drop[i] {
			ev.Text += last[i]
			out = append(out, ev)
		}
	}
	return out
}

// setsCPUs reports whether an event is a change of the CPUs of a workload that was made.
func setsCPUs(ev *plan.Event) bool {
	return ev.Code == words.StepTook && strings.HasPrefix(ev.Text, string(plan.SetCPUs)+":")
}

func printEvents(w io.Writer, p view.Paint, events []plan.Event, withWorkload bool) {
	for _, ev := range view.PlainAll(events) {
		mark := " "
		if ev.Error {
			mark = p.Warn("!")
		}
		who, text := "", ev.Text
		if id := string(ev.Workload); withWorkload && id != "" {
			verb, rest, _ := strings.Cut(text, " ")
			if after, named := strings.CutPrefix(rest, id+" "); named { // move ID from …
				text = verb + " " + p.Bold(id) + " " + after
			} else {
				who = p.Bold(id) + " "
			}
		}
		const indent = len("2006-01-02 15:04:05 ! ")
		fmt.Fprintf(w, "%s %s %s\n", p.Dim(ev.Time.Local().Format("2006-01-02 15:04:05")), mark,
			p.Hang(fmt.Sprintf("%-8s %s%s", ev.Kind, who, text), indent))
	}
}
