package heat

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/view"
)

// Maps are all heat maps of a document.
func Maps(d *measure.Document, expand bool) []Map {
	var out []Map
	if d.Latency != nil {
		out = append(out, Latency(d, d.Latency, expand))
	}
	if d.CPULatency != nil {
		out = append(out, Latency(d, d.CPULatency, expand))
	}
	for i := range d.Bandwidth {
		out = append(out, Bandwidth(&d.Bandwidth[i]))
	}
	for i := range d.C2C {
		out = append(out, C2C(&d.C2C[i]))
	}
	return out
}

// Curves are all curves of a document.
func Curves(d *measure.Document) []Curve {
	var out []Curve
	if len(d.Loaded) > 0 {
		out = append(out, LoadedCurve(d.Loaded))
	}
	if len(d.Levels) > 0 {
		out = append(out, LevelsCurve(d.Levels))
	}
	return out
}

func drawings(d *measure.Document, caption string) []*drawing {
	var all []*drawing
	for _, m := range Maps(d, false) {
		all = append(all, m.draw(caption))
	}
	for _, c := range Curves(d) {
		all = append(all, c.draw(caption))
	}
	return all
}

// SVG is all pictures of a document in one file.
func SVG(d *measure.Document) string {
	if all := drawings(d, Caption(d)); len(all) == 1 {
		return all[0].file()
	}
	return sheet("homenode probe", Caption(d), drawings(d, "")).file()
}

// Caption tells what was measured, when and by what: machine, CPU, kernel, date, program.
func Caption(d *measure.Document) string {
	var parts []string
	add := func(before, s string) {
		if s != "" {
			parts = append(parts, before+s)
		}
	}
	add("", d.Host.ID)
	add("", d.Host.CPU)
	add("", words.Count(len(d.Nodes), "NUMA node")+", "+words.Count(d.Host.CPUs, "CPU"))
	add("Linux ", d.Host.Kernel)
	if r := d.Run; r != nil {
		add("measured ", date(r.Started))
		add("homenode ", r.Tool)
	}
	return strings.Join(parts, " · ")
}

// date is a time of RFC 3339 for people.
func date(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return s
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// Took tells how the measuring went, "" when nothing was measured.
func Took(d *measure.Document) string {
	r := d.Run
	if r == nil {
		return ""
	}
	var parts []string
	if r.Started != "" {
		parts = append(parts, date(r.Started))
	}
	if r.Profile != "" {
		parts = append(parts, r.Profile+" profile")
	}
	if r.Seconds > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s", r.Seconds))
	}
	if r.Load1.Known() {
		parts = append(parts, fmt.Sprintf("load average %.2f", float64(r.Load1)))
	}
	if r.Sigma.Known() {
		parts = append(parts, fmt.Sprintf("control cell ±%.1f %%", 100*float64(r.Sigma)))
	}
	if r.Rejected.Known() {
		parts = append(parts, fmt.Sprintf("%.1f %% of the samples thrown out", float64(r.Rejected)))
	}
	if r.RT {
		parts = append(parts, "latencies in real time")
	}
	if r.Partial {
		parts = append(parts, "ended early: what was asked for is not all there")
	}
	return strings.Join(parts, ", ")
}

//go:embed page.css
var pageStyle string

// HTML is one file with everything in it: what the machine is, the diagnosis where there
// is one, pictures, and the numbers as JSON. It loads nothing and runs nothing. title is
// the command's.
func HTML(title string, d *measure.Document) (string, error) {
	var raw bytes.Buffer
	if err := d.Write(&raw); err != nil {
		return "", err
	}
	if d.Host.ID != "" {
		title += ": " + d.Host.ID
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<h1>%s</h1>\n", view.Markup(title))
	facts(&b, d)
	if d.Diagnosis != nil {
		diagnosis(&b, d.Diagnosis)
	}
	if all := drawings(d, ""); len(all) > 0 {
		b.WriteString("<h2>Measured</h2>\n<div class=\"pictures\">\n")
		for _, p := range all {
			b.WriteString(p.inside(0, 0))
		}
		b.WriteString("</div>\n")
	}
	fmt.Fprintf(&b, "<details><summary>All numbers (JSON, schema %s)</summary>\n<pre id=\"data\">%s</pre></details>\n",
		measure.Schema, view.Markup(strings.TrimSpace(raw.String())))
	return Page(title, b.String()), nil
}

// Page is a whole page of HTML, which loads nothing and runs nothing. The title is text, the
// body markup. It prints on A4.
func Page(title, body string) string {
	return fmt.Sprintf(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
%s</style>
<style>
%s</style>
</head><body>
%s</body></html>
`, view.Markup(title), pageStyle, style, body)
}

var figures = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(\d) (%|(?:ns|ms|s|[GM]B/s|[KMGT]iB|MHz)\b)`)
})

// prose is text of HTML in which no figure is torn from its unit.
func prose(s string) string { return figures().ReplaceAllString(view.Markup(s), "$1&nbsp;$2") }

func facts(b *strings.Builder, d *measure.Document) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "<tr><th>%s</th><td>%s</td></tr>\n", view.Markup(name), prose(value))
		}
	}
	b.WriteString("<table>\n")
	row("CPU", d.Host.CPU)
	row("kernel", strings.TrimSpace("Linux "+d.Host.Kernel+" "+strings.Join(d.Host.CmdlineNUMA, " ")))
	row("NUMA", fmt.Sprintf("%s on %s, %s", words.Count(len(d.Nodes), "node"),
		words.Count(len(d.Host.Packages), "package"), words.Count(d.Host.CPUs, "CPU")))
	switch v := d.Host.Virt; v {
	case "none":
		row("virtual machine", "no")
	case "vm":
		row("virtual machine", "yes")
	default:
		row("virtual machine", v)
	}
	row("measured", Took(d))
	row("not measured", d.NotMeasured)
	if r := d.Run; r != nil {
		row("notes", strings.Join(r.Notes, "; "))
		if r.Tool != "" {
			row("by", "homenode "+r.Tool)
		}
	}
	b.WriteString("</table>\n")
}

// diagnosis has all that `homenode doctor` prints.
func diagnosis(b *strings.Builder, d *measure.Diagnosis) {
	b.WriteString("<h2>Diagnosis</h2>\n")
	if d.Severity == measure.Undecided {
		b.WriteString("<p><strong>Not determined</strong></p>\n")
	}
	for _, v := range d.Verdicts {
		fmt.Fprintf(b,
			"<div class=\"verdict %s\"><p>%s: <strong>%s</strong> <small>%s, confidence %.0f %%</small></p>\n<ul "+
				"class=\"evidence\">\n",
			view.Markup(string(v.Severity)), view.Markup(string(v.Severity)), prose(v.Says), view.Markup(v.State),
			100*v.Confidence)
		for _, e := range v.Evidence {
			fmt.Fprintf(b, "<li>%s (%s) <small>%s</small></li>\n", prose(e.Says), view.Markup(e.Source),
				view.Markup(e.Rule))
		}
		b.WriteString("</ul>\n")
		for _, a := range v.Advice {
			fmt.Fprintf(b, "<p>What to do: %s</p>\n", view.Markup(a))
		}
		if v.WouldChange != "" {
			lead := "Would change this"
			if v.Severity == measure.Undecided {
				lead = "Needed to decide"
			}
			fmt.Fprintf(b, "<p>%s: %s.</p>\n", lead, prose(v.WouldChange))
		}
		b.WriteString("</div>\n")
	}
	if len(d.Findings) > 0 {
		b.WriteString("<h2>Settings and other programs</h2>\n")
		for _, f := range d.Findings {
			fmt.Fprintf(b, "<div class=\"verdict %s\"><strong>%s</strong> <small>%s</small><p>%s</p>\n",
				view.Markup(string(f.Severity)), view.Markup(f.Subject), view.Markup(string(f.Severity)), prose(f.Says))
			if f.Advice != "" {
				fmt.Fprintf(b, "<p>What to do: %s</p>\n", view.Markup(f.Advice))
			}
			b.WriteString("</div>\n")
		}
	}
	if len(d.NotKnown) > 0 {
		b.WriteString("<h2>Not known</h2>\n<ul>\n")
		for _, n := range d.NotKnown {
			fmt.Fprintf(b, "<li>%s</li>\n", prose(n))
		}
		b.WriteString("</ul>\n")
	}
}
