package heat

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/measure"
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

// SVG is all pictures of a document under one another.
func SVG(d *measure.Document) string {
	type picture struct {
		svg  string
		w, h float64
	}
	var all []picture
	var width, height float64
	add := func(s string) {
		var w, h float64
		fmt.Sscanf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%f" height="%f"`, &w, &h)
		all = append(all, picture{s, w, h})
		width, height = max(width, w), height+h
	}
	for _, m := range Maps(d, false) {
		add(m.SVG())
	}
	for _, c := range Curves(d) {
		add(c.SVG())
	}
	if len(all) == 1 {
		return all[0].svg
	}
	var b strings.Builder
	open(&b, width, height, title(d))
	y := 0.0
	for _, p := range all {
		b.WriteString(strings.Replace(p.svg, "<svg ", fmt.Sprintf(`<svg x="0" y="%.0f" `, y), 1))
		y += p.h
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func title(d *measure.Document) string {
	name := d.Host.CPU
	if name == "" {
		name = d.Host.ID
	}
	return strings.TrimSpace("homenode probe: " + name)
}

// HTML is one file with everything in it: pictures, verdicts, and the numbers
// as JSON. It loads nothing from anywhere.
func HTML(d *measure.Document) (string, error) {
	var raw bytes.Buffer
	if err := d.Write(&raw); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #111; background: #fff }
svg { max-width: 100%%; height: auto; display: block; margin: 1.5rem 0 }
table { border-collapse: collapse } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
.verdict { border-left: 4px solid #888; padding-left: 1rem; margin: 1rem 0 } .defect { border-color: #d55e00 } .warning { border-color: #e69f00 } .healthy { border-color: #0072b2 }
small, .evidence { color: #555 }
</style></head><body>
<h1>%s</h1>
`, view.Markup(title(d)), view.Markup(title(d)))
	facts(&b, d)
	if d.Diagnosis != nil {
		verdicts(&b, d.Diagnosis)
	}
	for _, m := range Maps(d, false) {
		b.WriteString(m.SVG())
	}
	for _, c := range Curves(d) {
		b.WriteString(c.SVG())
	}
	// < is the only sign that could end the element early.
	fmt.Fprintf(&b, "<details><summary>All numbers (%s)</summary><script type=\"application/json\" id=\"data\">%s</script>\n<pre>%s</pre></details>\n</body></html>\n",
		measure.Schema, strings.ReplaceAll(strings.TrimSpace(raw.String()), "<", `\u003c`), view.Markup(strings.TrimSpace(raw.String())))
	return b.String(), nil
}

func facts(b *strings.Builder, d *measure.Document) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "<tr><th>%s</th><td>%s</td></tr>\n", view.Markup(name), view.Markup(value))
		}
	}
	b.WriteString("<table>\n")
	row("machine", d.Host.ID)
	row("kernel", strings.TrimSpace(d.Host.Kernel+" "+strings.Join(d.Host.CmdlineNUMA, " ")))
	row("nodes", fmt.Sprintf("%d on %d packages, %d CPUs", len(d.Nodes), len(d.Host.Packages), d.Host.CPUs))
	row("virtual machine", d.Host.Virt)
	if r := d.Run; r != nil {
		text := fmt.Sprintf("%s, %s profile, %.1f s", r.Started, r.Profile, r.Seconds)
		if r.Load1.Known() {
			text += fmt.Sprintf(", load average %.2f", float64(r.Load1))
		}
		if r.Rejected.Known() {
			text += fmt.Sprintf(", %.1f %% of the samples thrown out", float64(r.Rejected))
		}
		if r.Partial {
			text += ", ended early"
		}
		row("measured", text)
		row("notes", strings.Join(r.Notes, "; "))
	}
	b.WriteString("</table>\n")
}

func verdicts(b *strings.Builder, d *measure.Diagnosis) {
	b.WriteString("<h2>Diagnosis</h2>\n")
	for _, v := range d.Verdicts {
		fmt.Fprintf(b, "<div class=\"verdict %s\"><strong>%s</strong> <small>%s, confidence %.2f</small><p>%s</p>\n<ul class=\"evidence\">\n",
			view.Markup(string(v.Severity)), view.Markup(v.State), view.Markup(string(v.Severity)), v.Confidence, view.Markup(v.Says))
		for _, e := range v.Evidence {
			fmt.Fprintf(b, "<li>%s: %s (%s)</li>\n", view.Markup(e.Rule), view.Markup(e.Says), view.Markup(e.Source))
		}
		b.WriteString("</ul>\n")
		for _, a := range v.Advice {
			fmt.Fprintf(b, "<p>What to do: %s</p>\n", view.Markup(a))
		}
		b.WriteString("</div>\n")
	}
}
