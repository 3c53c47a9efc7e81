package paper

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/heat"
	"github.com/homenode/homenode/ui/view"
)

// Trial is a trial as a page.
func Trial(d trial.Document) (string, error) {
	title := "Trial " + words.Printable(d.Name)
	return fill(trialPage(), title, trialView{Document: d, Title: title})
}

// trialView is a trial with what the page works out of it.
type trialView struct {
	trial.Document
	Title string
}

// Amount is a change in words: +4.2 %, -1.3 points.
func Amount(x float64, scale trial.Scale, unit string) string {
	return strings.TrimSpace(number(x, scale) + " " + unitOf(scale, unit))
}

// number is a change without its unit; one that is rounded to 0 has no sign.
func number(x float64, scale trial.Scale) string {
	if scale == trial.Absolute {
		return fmt.Sprintf("%+.3g", x)
	}
	if math.Abs(x) < 0.0005 {
		return "0.0"
	}
	return fmt.Sprintf("%+.1f", 100*x)
}

func unitOf(scale trial.Scale, unit string) string {
	switch scale {
	case trial.Relative:
		return "%"
	case trial.InPoints:
		return "points"
	}
	return unit
}

// Range is an interval in words.
func Range(e *trial.Effect, unit string) string {
	if !e.Enough {
		return fmt.Sprintf("%s; an interval needs %d", words.Count(e.Blocks, "block"), trial.Least(1))
	}
	return number(e.Low, e.Scale) + " to " + Amount(e.High, e.Scale, unit)
}

// Value is a mean in words.
func Value(x float64, m *trial.Metric) string {
	if m.Points {
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	digits := "%.4g"
	if math.Abs(x) >= 1000 {
		digits = "%.0f"
	}
	return strings.TrimSpace(fmt.Sprintf(digits+" %s", x, m.Unit))
}

// MetricOf is the metric of an effect.
func MetricOf(d *trial.Document, name string) *trial.Metric {
	if i := slices.IndexFunc(d.Metrics, func(m trial.Metric) bool { return m.Name == name }); i >= 0 {
		return &d.Metrics[i]
	}
	return &trial.Metric{Name: name}
}

// TrialHeadline is the result in a sentence.
func TrialHeadline(d *trial.Document) string {
	done := fmt.Sprintf("%d of %s measured", d.Blocks(), words.Count(d.Plan.Blocks, "block"))
	if d.State == trial.Stopped {
		done += "; stopped: " + d.Why
	}
	if len(d.Effects) == 0 {
		return "No result yet: " + done + "."
	}
	e := &d.Effects[0]
	m := MetricOf(d, e.Metric)
	said := map[trial.Verdict]string{
		trial.Better:     "%s is better with %s than with %s: %s (95 %% interval %s).",
		trial.Worse:      "%s is worse with %s than with %s: %s (95 %% interval %s).",
		trial.CannotTell: "Cannot tell whether %s differs between %s and %s: %s (95 %% interval %s)."}[e.Verdict]
	said = cmp.Or(said, "%s, %s beside %s: %s (95 %% interval %s).")
	if !e.Enough {
		return fmt.Sprintf("Too few blocks for an interval: %s is %s with %s beside %s. %s.", m.Name,
			Amount(e.Change, e.Scale, m.Unit), e.Arm, e.Base, done)
	}
	return fmt.Sprintf(said, m.Name, e.Arm, e.Base, Amount(e.Change, e.Scale, m.Unit), Range(e, m.Unit)) + " " + done +
		"."
}

// TrialVerdict is the verdict of one effect with what to know of it.
func TrialVerdict(e *trial.Effect) string {
	text := string(e.Verdict)
	if e.Verdict == trial.CannotTell && e.Excludes {
		text += " (among so many comparisons such a difference occurs by chance)"
	}
	if e.Carried {
		text += " (the arm acts longer than the washout: lengthen --washout; the effect may be larger)"
	}
	return text
}

// Direction is which values are better.
func Direction(m *trial.Metric) string {
	if m.Lower {
		return "lower is better"
	}
	return "higher is better"
}

// MachineLine is a machine in a line.
func MachineLine(m *trial.Machine) string {
	parts := []string{words.Count(m.Packages, "package"), words.Count(m.Nodes, "NUMA node"), words.Count(m.CPUs, "CPU"),
		words.Size(m.MemoryKiB)}
	if m.LLCs > 0 {
		parts = append(parts, words.Count(m.LLCs, "last-level cache"))
	}
	if m.CPU != "" {
		parts = append([]string{m.CPU}, parts...)
	}
	if m.Kernel != "" {
		parts = append(parts, "Linux "+m.Kernel)
	}
	return strings.Join(parts, ", ")
}

// armWords describes the arms of a trial. Arms of bench/seeds are described in its own report.
var armWords = map[trial.Arm]string{
	trial.Off:       "the kernel alone, with everything undone that homenode had set",
	trial.Balancing: "as off, with kernel.numa_balancing on",
	trial.Caches:    "as off, with the kernel's cache-aware scheduling on",
	trial.On:        "homenode as configured",
}

// TrialMethod says what was done, a sentence each.
func TrialMethod(d *trial.Document) []string {
	p := &d.Plan
	of := "the host"
	if len(d.Workloads) > 0 {
		of = strings.Join(d.Workloads, ", ")
	}
	out := []string{fmt.Sprintf("Switched: %s. Each block has one period of %s, in an order drawn from the seed %d.",
		of, Arms(p.Arms), p.Seed),
		fmt.Sprintf("A period is measured for %s, with a reading every %s, after at least %s of washout and after "+
			"all moves have ended.",
			words.Lasts(p.Period), words.Lasts(p.Every), words.Lasts(p.Washout))}
	var described []string
	for _, arm := range p.Arms {
		if what := armWords[arm]; what != "" {
			described = append(described, string(arm)+": "+what)
		}
	}
	if len(described) > 0 {
		out = append(out, "Arms: "+strings.Join(described, "; ")+".")
	}
	if !d.Balancing && slices.Contains(p.Arms, trial.Off) {
		out = append(out, "kernel.numa_balancing stayed as it was in every arm.")
	}
	if !d.Caches && slices.Contains(p.Arms, trial.Off) {
		out = append(out, "The kernel's cache-aware scheduling, where it has any, stayed as it was in every arm.")
	}
	late := 0
	for i := range d.Periods {
		if d.Periods[i].Pending > 0 {
			late++
		}
	}
	if late > 0 {
		out = append(out, fmt.Sprintf("In %s moves had not ended when measuring began.", words.Count(late, "period")))
	}
	return append(out, d.Notes...)
}

// TrialMarkdown is a trial as text for a ticket.
func TrialMarkdown(d *trial.Document) string {
	var b strings.Builder
	cell := func(s string) string { return strings.ReplaceAll(words.Printable(s), "|", "\\|") }
	fmt.Fprintf(&b, "### Homenode trial %s\n\n%s\n\n", cell(d.Name), cell(TrialHeadline(d)))
	if len(d.Effects) > 0 {
		b.WriteString("| metric | compared | before → after | effect | 95 % interval | verdict " +
			"|\n|---|---|---|---|---|---|\n")
		for i := range d.Effects {
			e := &d.Effects[i]
			m := MetricOf(d, e.Metric)
			fmt.Fprintf(&b, "| %s (%s) | %s / %s | %s → %s | %s | %s | %s |\n", cell(e.Metric), Direction(m), e.Arm,
				e.Base, cell(Value(e.Of, m)), cell(Value(e.Is, m)), cell(Amount(e.Change, e.Scale, m.Unit)),
				cell(Range(e, m.Unit)), TrialVerdict(e))
		}
		b.WriteString("\n")
	}
	for _, text := range TrialMethod(d) {
		fmt.Fprintf(&b, "- %s\n", cell(text))
	}
	fmt.Fprintf(&b, "- Machine: %s. Homenode %s.\n", cell(MachineLine(&d.Machine)), cell(d.Homenode))
	fmt.Fprintf(&b, "- %s to %s.\n", date(d.Began), date(lastTime(d)))
	return b.String()
}

func lastTime(d *trial.Document) time.Time {
	if !d.Ended.IsZero() {
		return d.Ended
	}
	if n := len(d.Periods); n > 0 {
		return d.Began.Add(time.Duration(d.Periods[n-1].To * float64(time.Second)))
	}
	return d.Began
}

// Arms is a list of arms in words.
func Arms(all []trial.Arm) string {
	text := make([]string, len(all))
	for i, a := range all {
		text[i] = string(a)
	}
	return words.List(text)
}

// Until is when it ended, or the newest period did.
func (v trialView) Until() time.Time { return lastTime(&v.Document) }

// Headline, Method and Machinery are for the template.
func (v trialView) Headline() string  { return TrialHeadline(&v.Document) }
func (v trialView) Method() []string  { return TrialMethod(&v.Document) }
func (v trialView) Machinery() string { return MachineLine(&v.Machine) }

// EffectRow is an effect in words.
type EffectRow struct {
	Metric, Direction, Compared, Means, Change, Range, Verdict string
	Strong                                                     bool
}

// Rows is the effects in words.
func (v trialView) Rows() (rows []EffectRow) {
	for i := range v.Effects {
		e := &v.Effects[i]
		m := MetricOf(&v.Document, e.Metric)
		rows = append(rows, EffectRow{e.Metric, Direction(m), fmt.Sprintf("%s / %s", e.Arm, e.Base),
			Value(e.Of, m) + " → " + Value(e.Is, m), Amount(e.Change, e.Scale, m.Unit), Range(e, m.Unit),
			TrialVerdict(e), e.Verdict == trial.Better || e.Verdict == trial.Worse})
	}
	return rows
}

// NeedRow is how long a trial must run for one metric.
type NeedRow struct {
	Metric, Noise string
	Needs         []string
}

// NeedRows is the outlook in words.
func NeedRows(all []trial.Outlook) (rows []NeedRow) {
	for _, o := range all {
		row := NeedRow{Metric: o.Metric, Noise: strings.TrimPrefix(Amount(o.Noise, o.Scale, ""), "+")}
		for _, n := range o.Needs {
			text := "over 10,000 blocks"
			if n.Blocks > 0 {
				text = fmt.Sprintf("%s (%s)", words.Count(n.Blocks, "block"),
					words.Span(time.Duration(n.Seconds*float64(time.Second))))
			}
			row.Needs = append(row.Needs, text)
		}
		rows = append(rows, row)
	}
	return rows
}

// Outlooks is that of the page.
func (v trialView) Outlooks() []NeedRow { return NeedRows(v.Outlook) }

// Forest draws each effect that is relative or in points with its interval.
func (v trialView) Forest() template.HTML {
	var all []*trial.Effect
	most := 0.01
	for i := range v.Effects {
		if e := &v.Effects[i]; e.Enough && e.Scale != trial.Absolute {
			all = append(all, e)
			most = max(most, min(1, math.Abs(e.Low)), min(1, math.Abs(e.High)))
		}
	}
	if len(all) == 0 {
		return ""
	}
	end := roundUp(most)
	most = end * 1.1
	const (
		left  = 250
		width = 420
		row   = 26
	)
	x := func(v float64) float64 { return left + width/2*(1+max(-1, min(1, v/most))) }
	var b strings.Builder
	height := row*len(all) + 40
	fmt.Fprintf(&b,
		`<svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="effects with their 95 %% intervals" font-family="system-ui, sans-serif" font-size="13" fill="currentColor">`, left+width+90, height, left+width+90, height)
	fmt.Fprintf(&b, `<line x1="%g" x2="%g" y1="4" y2="%d" stroke="currentColor" stroke-opacity=".5"/>`, x(0), x(0),
		height-24)
	for i, e := range all {
		y := float64(row*i + 18)
		colour := map[trial.Verdict]string{trial.Better: "#0072b2", trial.Worse: "#d55e00"}[e.Verdict]
		colour = cmp.Or(colour, "#8b949e")
		fmt.Fprintf(&b, `<text x="0" y="%g">%s</text>`, y+4,
			view.Markup(cut(e.Metric, 18)+", "+string(e.Arm)+" / "+string(e.Base)))
		fmt.Fprintf(&b,
			`<line x1="%.1f" x2="%.1f" y1="%g" y2="%g" stroke="%s" stroke-width="3"/><circle cx="%.1f" cy="%g" r="5" fill="%s"/>`, x(e.Low), x(e.High), y, y, colour, x(e.Change), y, colour)
		fmt.Fprintf(&b, `<text x="%d" y="%g">%s</text>`, left+width+8, y+4, view.Markup(Amount(e.Change, e.Scale, "")))
	}
	for _, t := range []float64{-1, -0.5, 0, 0.5, 1} {
		at := t * end
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill-opacity=".7">%s</text>`, x(at), height-6,
			view.Markup(tick(at)))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// tick is the label of a place on the axis.
func tick(at float64) string {
	if at == 0 {
		return "0"
	}
	return fmt.Sprintf("%+.3g %%", 100*at)
}

// roundUp returns the next round number: 1, 2, 4, 6 or 10 times a power of ten.
func roundUp(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)+1e-9))
	for _, first := range []float64{1, 2, 4, 6} {
		if x <= first*power*(1+1e-9) {
			return math.Round(first*power*1e6) / 1e6
		}
	}
	return math.Round(10*power*1e6) / 1e6
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Plots is the readings of each metric over time, a line for each arm.
func (v trialView) Plots() (plots []template.HTML) {
	for i := range v.Metrics {
		m := &v.Metrics[i]
		c := heat.Curve{Title: m.Name + ", " + Direction(m), X: "time since the start", Y: m.Name, Smooth: true,
			XName: func(s float64) string { return clock(s) }}
		if m.Unit != "" {
			c.Y += ", " + m.Unit
		}
		factor := 1.0
		if m.Points {
			factor, c.Y = 100, m.Name+", %"
		}
		lines := map[trial.Arm]*heat.Line{}
		for _, a := range v.Plan.Arms {
			lines[a] = &heat.Line{Name: string(a)}
		}
		n := 0
		for k := range v.Periods {
			p := &v.Periods[k]
			for a, line := range lines {
				if a != p.Arm && len(line.Points) > 0 && !math.IsNaN(line.Points[len(line.Points)-1][1]) {
					line.Points = append(line.Points, [2]float64{p.From, math.NaN()})
				}
			}
			for _, x := range p.Values[m.Name] {
				lines[p.Arm].Points = append(lines[p.Arm].Points, [2]float64{x.At, factor * x.Value})
				n++
			}
		}
		for _, a := range v.Plan.Arms {
			if len(lines[a].Points) > 1 {
				c.Lines = append(c.Lines, *lines[a])
			}
		}
		if n > 3 && len(c.Lines) > 0 {
			plots = append(plots, template.HTML(c.Inline()))
		}
	}
	return plots
}

// clock is seconds as a time since the start.
func clock(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f d", d.Hours()/24)
	case d >= time.Hour:
		return fmt.Sprintf("%d:%02d h", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d:%02d min", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

var trialPage = templateOf("trial.html")
