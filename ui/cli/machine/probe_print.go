package machine

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/heat"
	"github.com/homenode/homenode/ui/view"
)

func printDocument(w io.Writer, d *measure.Document, s heat.Style, expand bool) {
	say := func(format string, a ...any) {
		text := fmt.Sprintf(format, a...)
		if s.ASCII {
			text = view.ASCII(text)
		}
		io.WriteString(w, text)
	}
	wrap := func(text, indent string) {
		var b strings.Builder
		view.Paint{Width: s.Width}.Wrap(&b, text, indent)
		say("%s", b.String())
	}
	wrap(heat.Caption(d), "")
	for _, m := range heat.Maps(d, expand) {
		say("\n")
		io.WriteString(w, m.Text(s))
	}
	for _, l := range d.Loaded {
		say("\n")
		wrap("latency under load: "+heat.LoadedName(l), "")
		t, starved := view.NewTable(">PAUSE", ">TRAFFIC", ">LATENCY"), false
		for _, p := range l.Points {
			gap := fmt.Sprint(p.Gap)
			if p.Gap < 0 {
				gap = "no load"
			}
			t.Row(gap, fmt.Sprintf("%.2f GB/s", float64(p.MBps)/1000), fmt.Sprintf("%s%.1f ns", p.Flag, float64(p.NS)))
			starved = starved || p.Flag != ""
		}
		t.Print(w, view.Paint{})
		say("  PAUSE: turns of an empty loop between bursts of 4 KiB\n")
		if starved {
			say("  ~  the load had a CPU for less than %.0f %% of the time: the point counts for nothing\n",
				100*measure.LoadRan)
		}
		say("  peak %s GB/s, knee %s GB/s; at 50, 75, 90 %% of the peak %s, %s, %s ns\n",
			gbs(l.Peak), gbs(l.Knee), whole(l.At50), whole(l.At75), whole(l.At90))
	}
	for _, l := range d.Levels {
		say("\nlatency by buffer size, CPU %d, memory on node %d\n", l.CPU, l.Node)
		t := view.NewTable(">SIZE", ">LATENCY", ">95 % INTERVAL", "")
		for _, p := range l.Points {
			mark := ""
			for _, k := range l.Knees {
				if k.Bytes == p.Bytes {
					mark = l.KneeName(k)
				}
			}
			t.Row(words.Bytes(p.Bytes), fmt.Sprintf("%.2f ns", float64(p.NS)),
				fmt.Sprintf("%.2f to %.2f ns", float64(p.CI95[0]), float64(p.CI95[1])), mark)
		}
		t.Print(w, view.Paint{})
	}
	if n := len(d.Pages); n > 0 {
		say("\npage signatures: %s of 2 MiB", words.Count(n, "page"))
		for k, p := range d.Host.Packages {
			var of []float64
			for _, page := range d.Pages {
				if page.NS[k].Known() {
					of = append(of, float64(page.NS[k]))
				}
			}
			say("; from package %d %.1f ns (5 %% below %.1f, 5 %% above %.1f)", p.ID, measure.Median(of),
				measure.Quantile(of, 0.05), measure.Quantile(of, 0.95))
		}
		say("\n")
	}
	if r := d.Run; r != nil {
		say("\n")
		wrap(heat.Took(d), "")
		printClock(say, r.Clock)
		for _, n := range r.Notes {
			wrap(n, "  ")
		}
	}
}

// printClock tells the clock of the CPU that changed most.
func printClock(say func(string, ...any), clocks []measure.Clock) {
	most, drift := -1, -1.0
	for i, c := range clocks {
		if d := math.Abs(float64(c.After/c.Before) - 1); d > drift {
			most, drift = i, d
		}
	}
	if most < 0 {
		return
	}
	c := clocks[most]
	say("  clock of CPU %d %.0f MHz before, %.0f MHz after", c.CPU, float64(c.Before), float64(c.After))
	if c.FreqBefore.Known() && c.FreqAfter.Known() {
		say(" (cpufreq reports %.0f and %.0f)", float64(c.FreqBefore), float64(c.FreqAfter))
	}
	say("\n")
}

func gbs(v measure.Value) string {
	if !v.Known() {
		return "?"
	}
	return fmt.Sprintf("%.1f", float64(v)/1000)
}

func whole(v measure.Value) string {
	if !v.Known() {
		return "?"
	}
	return fmt.Sprintf("%.0f", float64(v))
}

// printVerdict is one line of the doctor's, for who measures.
func printVerdict(e *cli.Env, o *output, d measure.Diagnosis) {
	text := "verdict: " + d.State
	for _, v := range d.Verdicts {
		if v.State == d.State {
			text += ": " + v.Says
			break
		}
	}
	text += " (homenode doctor says why)\n"
	if o.ascii || !view.UTF8(e.Getenv) {
		text = view.ASCII(text)
	}
	io.WriteString(e.Stdout, text)
}
