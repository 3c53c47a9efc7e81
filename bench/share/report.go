package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/bench/openloop"
	"github.com/homenode/homenode/ui/heat"
	"github.com/homenode/homenode/ui/view"
)

const schema = "homenode-bench-share/1"

// document is results.json: everything that was measured.
type document struct {
	Schema      string            `json:"schema"`
	Began       time.Time         `json:"began"`
	Command     string            `json:"command"`
	Seed        uint64            `json:"seed"`
	Smoke       bool              `json:"smoke,omitempty"`
	Machine     machine           `json:"machine"`
	Experiment  string            `json:"experiment_cpus"`
	Generator   string            `json:"generator_cpus"`
	Rate        float64           `json:"requests_a_second"`
	RunSeconds  float64           `json:"run_s"`
	WarmSeconds float64           `json:"warm_s"`
	Online      online            `json:"online"`
	Batch       batch             `json:"batch"`
	Skipped     map[string]string `json:"skipped,omitempty"` // why, by case
	Samples     []sample          `json:"samples"`           // in the order they ran
	Cases       []result          `json:"cases"`
}

// result is what the runs of a case say together.
type result struct {
	way
	Runs   int      `json:"runs"`
	P50    interval `json:"p50_us"`
	P90    interval `json:"p90_us"`
	P99    interval `json:"p99_us"`
	P90By  interval `json:"p90_change"` // against case B, as a share
	P99By  interval `json:"p99_change"`
	Busy   float64  `json:"busy"`
	Batch  float64  `json:"batch"`      // in the batch's unit, a second
	Part   float64  `json:"of_nothing"` // of what batch work does with nothing done, 0 to 1
	IPIs   float64  `json:"ipis_a_second"`
	Expels *float64 `json:"expulsions_a_second,omitempty"`
	Late   float64  `json:"late_p99_us"` // the generator's
	Passes *bool    `json:"passes,omitempty"`
}

// results puts the runs of each case together.
func results(samples []sample, seed uint64) (all []result) {
	of := func(id string, f func(*sample) float64) (x []float64) {
		for i := range samples {
			if samples[i].Case == id {
				x = append(x, f(&samples[i]))
			}
		}
		return x
	}
	at := func(p float64) func(*sample) float64 { return func(s *sample) float64 { return s.at(p) } }
	batch := func(s *sample) float64 { return s.Batch }
	for _, w := range ways {
		p99 := of(w.ID, at(99))
		if len(p99) == 0 {
			continue
		}
		r := result{way: w, Runs: len(p99), P50: middle(of(w.ID, at(50)), seed), P90: middle(of(w.ID, at(90)), seed),
			P99:   middle(p99, seed),
			P90By: change(of("B", at(90)), of(w.ID, at(90)), seed), P99By: change(of("B", at(99)), p99, seed),
			Busy:  median(of(w.ID, func(s *sample) float64 { return s.Busy })),
			Batch: median(of(w.ID, batch)), IPIs: median(of(w.ID, func(s *sample) float64 { return s.IPIs })),
			Late: median(of(w.ID, func(s *sample) float64 { return float64(s.Late) }))}
		if c := of("C", batch); len(c) > 0 && median(c) > 0 {
			r.Part = r.Batch / median(c)
		}
		var expels []float64
		for i := range samples {
			if samples[i].Case == w.ID && samples[i].Expelled != nil {
				expels = append(expels, *samples[i].Expelled)
			}
		}
		if len(expels) > 0 {
			m := median(expels)
			r.Expels = &m
		}
		if w.ID != "B" {
			ok := passes(r.P99By, r.Busy)
			r.Passes = &ok
		}
		all = append(all, r)
	}
	return all
}

// write puts report.html and results.json into a folder.
func (d *document) write(dir string) error {
	d.Schema, d.Cases = schema, results(d.Samples, d.Seed)
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	page := filepath.Join(dir, "report.html")
	if err := os.WriteFile(page, []byte(d.html()), 0o644); err != nil {
		return err
	}
	fmt.Printf("\n%s\nreport: %s\n", d.markdown(), page)
	return nil
}

func signed(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

func (r result) verdict() string {
	switch {
	case r.Passes == nil:
		return ""
	case *r.Passes:
		return "passes"
	}
	return "fails"
}

// between is an estimate with its interval.
func between(x interval, f func(float64) string) string {
	return f(x.Value) + " (" + f(x.Low) + " to " + f(x.High) + ")"
}

func micros(x float64) string {
	if x < 10_000 {
		return fmt.Sprintf("%.0f µs", x)
	}
	return fmt.Sprintf("%.1f ms", x/1000)
}

// batch is the progress of batch work.
func (d *document) batch(r result) string {
	if r.ID == "B" {
		return "none runs"
	}
	text := fmt.Sprintf("%.0f %s a second", r.Batch, d.Batch.Unit)
	if r.Part > 0 {
		text += fmt.Sprintf(", %.0f %% of that with nothing done", 100*r.Part)
	}
	return text
}

func orNone(x *float64) string {
	if x == nil {
		return "not counted"
	}
	return fmt.Sprintf("%.0f", *x)
}

var head = []string{"case", "p50", "p90", "p99", "p99 against alone", "CPUs busy", "batch work did",
	"expulsions a second", "IPIs a second", "verdict"}

func (d *document) row(r result) []string {
	p99 := "–"
	if r.ID != "B" {
		p99 = between(r.P99By, signed)
	}
	return []string{r.Name, micros(r.P50.Value), micros(r.P90.Value), between(r.P99, micros), p99,
		fmt.Sprintf("%.0f %%", 100*r.Busy), d.batch(r), orNone(r.Expels), fmt.Sprintf("%.0f", r.IPIs), r.verdict()}
}

// markdown is the table for bench/results/share.md.
func (d *document) markdown() string {
	var b strings.Builder
	b.WriteString("| " + strings.Join(head, " | ") + " |\n|" + strings.Repeat("---|", len(head)) + "\n")
	for _, r := range d.Cases {
		b.WriteString("| " + strings.Join(d.row(r), " | ") + " |\n")
	}
	return b.String()
}

// words are how the report calls what online work does.
type words struct{ title, curve, within, counted, who string }

func (o *online) words() words {
	if o.Name == stepName {
		return words{title: "How soon online work runs beside batch work",
			curve:   "Time from the wake-up of all threads until one ran",
			within:  "ran within this time, % of the wake-ups",
			counted: "99 of 100 threads that wake run within this time.", who: "online work"}
	}
	return words{title: "What a web server feels of batch work", curve: "Latency from when a request was due",
		within:  "answered within this time, % of the requests",
		counted: "99 of 100 requests are answered within this time.", who: "the server"}
}

// load is what online work has to do.
func (d *document) load() string {
	if d.Online.Name == stepName {
		return fmt.Sprintf("%d threads that wake at the same moment, %.0f times a second, for %d ms of work each",
			d.Online.Threads, d.Rate, stepWork.Milliseconds())
	}
	return fmt.Sprintf("%.0f requests a second from CPUs %s", d.Rate, d.Generator)
}

// curve is how late the latest answers are, from the median on: every case a line.
func (d *document) curve() heat.Curve {
	text := d.Online.words()
	c := heat.Curve{Title: text.curve, X: text.within,
		Y: "latency, ms", LogX: true, LogY: true, Smooth: true,
		XName: func(x float64) string { return fmt.Sprintf("%g", math.Round((100-100/later(x))*1e4)/1e4) }}
	for _, w := range ways {
		all := openloop.Histogram()
		for i := range d.Samples {
			if d.Samples[i].Case == w.ID {
				all.Merge(d.Samples[i].took)
			}
		}
		if all.TotalCount() == 0 {
			continue
		}
		l := heat.Line{Name: w.Name}
		// As far as ten requests are later: beyond that is chance.
		for x := 1.25; later(x) <= max(2.1, float64(all.TotalCount())/10); x *= 1.02 {
			l.Points = append(l.Points, [2]float64{x, float64(all.ValueAtQuantile(100-100/later(x))) / 1000})
		}
		if c.Lines == nil {
			l.Marks = []heat.Mark{{X: 4, Name: "p99"}}
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// later is one of how many requests is answered later, at a place of the axis: at 2, 4, 8,
// where its numbers are, one of 10, 100, 1000.
func later(x float64) float64 { return math.Pow(10, math.Log2(x)) }

// bars is batch progress beside protection.
func (d *document) bars(b *strings.Builder) {
	b.WriteString("<h2>What batch work got done</h2>\n<p>Protection by starving batch work would be no sharing: both " +
		"count.</p>\n<div class=\"wide\"><table>\n")
	for _, r := range d.Cases {
		if r.ID == "B" {
			continue
		}
		fmt.Fprintf(b,
			"<tr><th>%s</th><td><span class=\"bar\"><i style=\"width:%.0f%%\"></i></span>%s</td><td>p99 %s</td></tr>\n",
			markup(r.Name), 100*min(1, r.Part), markup(d.batch(r)), markup(signed(r.P99By.Value)))
	}
	b.WriteString("</table></div>\n")
}

// lead is the result in one sentence.
func (d *document) lead() string {
	if d.Smoke {
		return "A smoke test: it shows that the experiment runs. Its figures say nothing."
	}
	best := ""
	for _, r := range d.Cases {
		if r.Passes != nil && *r.Passes {
			best = r.Name
		}
	}
	if best == "" {
		return fmt.Sprintf("No case passes: with batch work beside it, p99 of %s rises by up to %.0f %% or "+
			"more, or the CPUs are not %.0f %% busy.", d.Online.words().who, 100*mostChange,
			100*leastBusy)
	}
	return fmt.Sprintf("With %s %s does not feel the batch work: p99 rises by less than %.0f %% (upper end "+
		"of the interval) while the CPUs are more than %.0f %% busy.", best, d.Online.words().who,
		100*mostChange, 100*leastBusy)
}

func (d *document) html() string {
	var b strings.Builder
	text := func(format string, a ...any) { b.WriteString(markup(fmt.Sprintf(format, a...))) }
	say := d.Online.words()
	title := say.title
	fmt.Fprintf(&b, "<h1>%s</h1>\n<p class=\"lead\">%s</p>\n", markup(title), markup(d.lead()))
	b.WriteString("<div class=\"tiles\">\n")
	for _, r := range d.Cases {
		change := "what the others are compared with"
		if r.ID != "B" {
			change = "p99 " + signed(r.P99By.Value) + ", " + r.verdict()
		}
		fmt.Fprintf(&b, "<div class=\"tile\">%s<b>%s</b><small>%s</small></div>\n", markup(r.Name),
			markup(micros(r.P99.Value)), markup(change))
	}
	b.WriteString("</div>\n<p><small>" + say.counted + " A case passes when the upper " +
		"end of the interval of its change is below ")
	text("%.0f %% and more than %.0f %% of the CPUs are busy.", 100*mostChange, 100*leastBusy)
	b.WriteString("</small></p>\n<div class=\"wide pictures\">" + d.curve().Inline() + "</div>\n")
	b.WriteString("<h2>All cases</h2>\n<div class=\"wide\"><table class=\"cards\">\n<tr>")
	for _, h := range head {
		fmt.Fprintf(&b, "<th>%s</th>", markup(h))
	}
	b.WriteString("</tr>\n")
	for _, r := range d.Cases {
		b.WriteString("<tr>")
		for i, cell := range d.row(r) {
			class := ""
			if i == 0 {
				class = ` class="name"`
			}
			fmt.Fprintf(&b, "<td%s data-is=\"%s\">%s</td>", class, markup(head[i]), markup(cell))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table></div>\n<p><small>")
	text("Median of %d runs of %.0f s a case, taken in an order drawn by seed %d, with its interval by bootstrap "+
		"over the runs (confidence %.0f %%). Expulsions by homenode's own counters; IPIs are the rows RES and CAL of "+
		"/proc/interrupts.",
		d.Cases[0].Runs, d.RunSeconds, d.Seed, 100*confidence)
	b.WriteString("</small></p>\n")
	for _, w := range ways {
		if why := d.Skipped[w.ID]; why != "" {
			fmt.Fprintf(&b, "<p class=\"verdict warning\">%s: not run: %s.</p>\n", markup(w.Name), markup(why))
		}
	}
	d.bars(&b)
	d.how(&b)
	raw, _ := json.MarshalIndent(d.short(), "", "  ")
	fmt.Fprintf(&b,
		"<details><summary>All numbers (JSON, schema %s; the histograms are in results.json)</summary>\n<pre "+
			"id=\"data\">%s</pre></details>\n", schema, view.Markup(string(raw)))
	return heat.Page(title, b.String())
}

// markup is text of HTML in which no figure is torn from its unit.
func markup(s string) string {
	return strings.NewReplacer(" %", "&nbsp;%", " µs", "&nbsp;µs", " ms", "&nbsp;ms").Replace(view.Markup(s))
}

// short is the document without the histograms.
func (d *document) short() document {
	out := *d
	out.Samples = nil
	for _, s := range d.Samples {
		s.Latency = nil
		out.Samples = append(out.Samples, s)
	}
	return out
}

// how is the machine and what ran on it.
func (d *document) how(b *strings.Builder) {
	smt := "without SMT"
	if d.Machine.SMT {
		smt = "with SMT"
	}
	late := 0.0
	for _, r := range d.Cases {
		late = max(late, r.Late)
	}
	server, work := "nginx, each answer compressed", d.Batch.Name
	cpus := fmt.Sprintf("%s for both; %s for the load generator alone", d.Experiment, d.Generator)
	load := fmt.Sprintf("%.0f requests a second in an open loop over the loopback device, each due at its time; what "+
		"the generator itself was late is in the latency: p99 %s at most", d.Rate, micros(late))
	switch d.Online.Name {
	case "own":
		server = "a small HTTP server of the benchmark's own, for nginx is not installed or was not asked for"
	case stepName:
		server = "" // none
		cpus = d.Experiment + " for both"
		load = d.load() + "; each counts from the moment when all should wake until it runs"
	}
	if d.Batch.Name == "own" {
		work = "busy loops of the benchmark's own, for ffmpeg and stress-ng are not installed or were not asked for"
	}
	b.WriteString("<h2>How it was measured</h2>\n<table>\n")
	for _, x := range [][2]string{
		{"machine", fmt.Sprintf("%s, %d CPUs, %d cores, %d nodes, %s", orUnknown(d.Machine.CPU), d.Machine.CPUs,
			d.Machine.Cores, d.Machine.Nodes, smt)},
		{"runs under", d.Machine.Guest},
		{"system", strings.TrimSpace("Linux " + d.Machine.Kernel + " " + d.Machine.OS)},
		{"homenode", d.Machine.Program},
		{"when", d.Began.Format("2 January 2006 15:04 UTC") + ", load average before " + d.Machine.Load},
		{"server", server},
		{"batch work", work},
		{"CPUs", cpus},
		{"load", load},
		{"command", d.Command},
		{"the online work's", d.Online.Command},
		{"the batch work's", d.Batch.Command},
	} {
		if x[1] != "" {
			fmt.Fprintf(b, "<tr><th>%s</th><td>%s</td></tr>\n", markup(x[0]), markup(x[1]))
		}
	}
	b.WriteString("</table>\n")
}

func orUnknown(s string) string {
	if s == "" {
		return "a processor that is not told"
	}
	return s
}
