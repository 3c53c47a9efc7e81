package paper

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/homenode/homenode/core/report"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/heat"
)

// Report is a report as a page.
func Report(r report.Report) (string, error) {
	title := "NUMA report"
	if r.Host != "" {
		title += ": " + r.Host
	}
	return fill(reportPage(), title, reportView{Report: r, Title: title})
}

// reportView is a report with what the page works out of it.
type reportView struct {
	report.Report
	Title string
}

// Took is how long the period is.
func (r reportView) Took() time.Duration { return r.To.Sub(r.From) }

// Clock is a time of the period, without the day where all is within one, and with seconds where
// it is short.
func (r reportView) Clock(t time.Time) string {
	if r.Took() < 10*time.Minute {
		return t.UTC().Format(time.TimeOnly)
	}
	if r.Took() > 24*time.Hour {
		return t.UTC().Format("2 Jan 15:04")
	}
	return t.UTC().Format("15:04")
}

// Curve is locality over time.
func (r reportView) Curve() template.HTML {
	l := r.Locality
	if len(l.Points) < 2 {
		return ""
	}
	from := l.Points[0].At
	hours := func(t time.Time) float64 { return t.Sub(from).Hours() }
	busy := "by accesses, as counted"
	if l.Weight == report.ByCPUUse {
		busy = "by CPU use (this host does not count accesses)"
	}
	c := heat.Curve{Title: "share of local accesses", X: "time, UTC", Y: "local, %", Smooth: true, Top: 100,
		XName: func(h float64) string { return r.Clock(from.Add(time.Duration(h * float64(time.Hour)))) },
		Lines: []heat.Line{{Name: "each workload counts by its memory"}, {Name: "each counts " + busy}}}
	gap := 0
	for _, p := range l.Points {
		x := hours(p.At)
		if gap < len(r.Gaps) && !p.At.Before(r.Gaps[gap].To) {
			for i := range c.Lines {
				if n := len(c.Lines[i].Points); n > 0 {
					c.Lines[i].Points = append(c.Lines[i].Points, [2]float64{x, math.NaN()})
				}
			}
			gap++
		}
		for i, y := range []*float64{p.Memory, p.Busy} {
			v := math.NaN()
			if y != nil {
				v = 100 * *y
			}
			c.Lines[i].Points = append(c.Lines[i].Points, [2]float64{x, v})
		}
	}
	return template.HTML(c.Inline())
}

// MostHomes is the largest figure of the table of homes.
func (r reportView) MostHomes() (most float64) {
	for _, h := range r.Homes {
		for _, n := range h.Nodes {
			most = max(most, n.VCPUs)
		}
	}
	return most
}

// Part is how long a column of the table of homes is.
func (r reportView) Part() time.Duration {
	if len(r.Homes) < 2 {
		return r.Took()
	}
	return r.Homes[1].From.Sub(r.Homes[0].From)
}

// HomeRows is the table of homes, a row for a node.
func (r reportView) HomeRows() (rows [][]report.NodeHomes) {
	for k, h := range r.Homes {
		for i, n := range h.Nodes {
			if i == len(rows) {
				rows = append(rows, make([]report.NodeHomes, len(r.Homes)))
			}
			rows[i][k] = n
		}
	}
	return rows
}

// Failed is how many failures there were.
func (r reportView) Failed() (n int) {
	for _, f := range r.Failures {
		n += f.Count
	}
	return n
}

// Expects reports whether a gain was expected of one of the largest moves: else the table has no such column.
func (r reportView) Expects() bool {
	return slices.ContainsFunc(r.Moves.Largest, func(m report.Moved) bool { return m.Expected != nil })
}

// MoveSeconds is how long the moves took.
func (r reportView) MoveSeconds() time.Duration {
	return time.Duration(r.Moves.Seconds * float64(time.Second))
}

// MoveNote says how a move ended, or what stayed.
func (r reportView) MoveNote(m *report.Moved) template.HTML {
	text := moveState(&m.Move)
	if m.Refused > 0 {
		if text != "" {
			text += "; "
		}
		text += words.Bytes(m.Refused) + " stayed"
		if m.Why != "" {
			text += ": " + m.Why
		}
	}
	return prose(text)
}

// MachineText is the host in a line.
func (r reportView) MachineText() string {
	m := r.Machine
	text := fmt.Sprintf("%s, %s, %s, %s", words.Count(m.Packages, "package"), words.Count(m.Nodes, "NUMA node"), words.Count(m.CPUs, "CPU"), words.Size(m.MemoryKiB))
	if m.CPU != "" {
		text += "; " + m.CPU
	}
	return text
}

var reportPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(functions).Parse(`<h1>{{.Title}}</h1>
<p class="lead">{{prose .Headline}}</p>
<table>
<tr><th>period</th><td>{{date .From}} to {{date .To}} ({{for .Took}})</td></tr>
{{with .Machine}}<tr><th>machine</th><td>{{$.MachineText}}</td></tr>{{end}}
{{with .Mode}}<tr><th>mode at the end</th><td>{{.}}{{if eq . "observe"}}: homenode changed nothing by itself{{end}}</td></tr>{{end}}
{{with .Version}}<tr><th>homenode</th><td>{{.}}</td></tr>{{end}}
<tr><th>recorded</th><td>{{count .Looks "scan"}} of the host, {{.Read}} of them read in full{{range .Gaps}}; nothing from {{time .From}} to {{time .To}}{{end}}</td></tr>
</table>
{{range .Notes}}<div class="verdict warning">{{prose .}}</div>
{{end}}<div class="tiles">
<div class="tile">local, by memory<b>{{share .Locality.Memory.Before}} → {{share .Locality.Memory.After}}</b><small>first and last tenth of the period</small></div>
<div class="tile">local, by {{if eq .Locality.Weight "accesses"}}accesses{{else}}CPU use{{end}}<b>{{share .Locality.Busy.Before}} → {{share .Locality.Busy.After}}</b><small>{{if eq .Locality.Weight "accesses"}}as the hardware counts them{{else}}accesses are not counted here{{end}}</small></div>
<div class="tile">moved<b>{{bytes .Moves.Bytes}}</b><small>{{count .Moves.Count "move"}}, {{for .MoveSeconds}}</small></div>
<div class="tile">failures<b>{{.Failed}}</b><small>{{if .Failures}}of {{count (len .Failures) "kind"}}{{else}}nothing failed{{end}}</small></div>
</div>
{{with .Curve}}<h2>Locality</h2>
<div class="wide pictures">
{{.}}</div>
{{end}}<h2>What to do</h2>
{{if .Worst}}<p>The workloads that lose most to memory on other nodes, the worst first. CPUs REMOTE is how many CPUs, on average, worked on memory of another node.</p>
<div class="wide"><table class="cards">
<tr><th>workload</th><th>home</th><th class="num">memory</th><th class="num">CPUs</th><th class="num">CPUs remote</th><th>local, first → now</th><th>what to do</th></tr>
{{range .Worst}}<tr><td class="name">{{name .Name .ID}}</td><td data-is="home">{{dash (home .Home .Caches)}}</td><td class="num" data-is="memory">{{size .MemoryKiB}}</td><td class="num" data-is="CPUs">{{cpus .CPUUse}}</td><td class="num" data-is="CPUs remote">{{cpus .Remote}}</td><td class="when" data-is="local, first → now">{{share .Before}} → {{bar .After}}</td><td class="says">{{prose .Advice.String}}</td></tr>
{{end}}</table></div>
{{else if .Machine}}<p>Nothing: no workload works on remote memory.</p>
{{else}}<p>Not known: no look at the host was recorded.</p>
{{end}}<h2>Memory that moved</h2>
{{if .Moves.Count}}<p>{{count .Moves.Count "move"}} brought {{bytes .Moves.Bytes}} home; that took {{for .MoveSeconds}}, added up{{if .Moves.Stayed}}; {{bytes .Moves.Stayed}} stayed where it was{{end}}.
{{if .Moves.Judged}}Of {{count .Moves.Judged "move"}} both are known: a gain of {{points .Moves.Expected}} was expected, {{points .Moves.Seen}} was seen.{{end}}</p>
<div class="wide"><table>
<tr><th>ended</th><th>workload</th><th>to nodes</th><th class="num">moved</th><th class="num">took</th><th class="num">local before</th>{{if .Expects}}<th class="num">expected</th>{{end}}<th class="num">seen</th><th></th></tr>
{{range .Moves.Largest}}<tr><td class="when">{{time .Ended}}</td><td class="name">{{name .Name .Workload}}</td><td>{{.Home}}</td><td class="num">{{bytes .Moved}}</td><td class="num">{{printf "%.1f s" .Seconds}}</td><td class="num">{{share .LocalityBefore}}</td>{{if $.Expects}}<td class="num">{{share .Expected}}</td>{{end}}<td class="num">{{share .LocalityAfter}}</td><td class="says">{{$.MoveNote .}}</td></tr>
{{end}}</table></div>
{{if gt .Moves.Count (len .Moves.Largest)}}<p><small>The {{len .Moves.Largest}} largest of {{.Moves.Count}}.</small></p>{{end}}
{{else}}<p>No memory was moved.</p>
{{end}}{{if .NotDone}}<h2>What was not done, and why</h2>
<div class="wide"><table class="cards">
<tr><th>not done</th><th class="num">workloads</th><th class="num">of the time</th><th>why</th></tr>
{{range .NotDone}}<tr><td class="when">{{.What}}</td><td class="num" data-is="workloads">{{.Workloads}}</td><td class="num" data-is="of the time">{{if .Bytes}}{{bytes .Bytes}}{{else}}{{part .Share}}{{end}}</td><td class="says">{{prose .Text}}</td></tr>
{{end}}</table></div>
<p><small>Each reason is worded as it was first given; the figures count all workloads it was given for.</small></p>
{{end}}{{if .Homes}}<h2>Who lived where</h2>
<p>vCPUs of the workloads with a home on each node{{if gt (len .Homes) 1}}, on average over {{for .Part}} each{{end}}.</p>
<div class="wide"><table>
<tr><th>node</th>{{range .Homes}}<th class="num">{{$.Clock .From}}</th>{{end}}</tr>
{{$most := .MostHomes}}{{range .HomeRows}}<tr><th>{{(index . 0).Node}}</th>{{range .}}<td class="num {{shade .VCPUs $most}}">{{number .VCPUs}}</td>{{end}}</tr>
{{end}}</table></div>
{{end}}{{if .Nodes}}<h2>Nodes at the end</h2>
<div class="wide"><table>
<tr><th>node</th><th>CPUs</th><th class="num">busy</th><th class="num">memory</th><th class="num">free</th><th class="num">homes</th><th class="num">vCPUs booked</th></tr>
{{range .Nodes}}<tr><th>{{.ID}}</th><td class="name">{{dash .CPUs.String}}</td><td class="num">{{busy .Busy}}</td><td class="num">{{size .MemoryKiB}}</td><td class="num">{{size .FreeKiB}}</td><td class="num">{{.Homes}}</td><td class="num">{{number .VCPUs}}</td></tr>
{{end}}</table></div>
{{end}}<h2>Failures</h2>
{{if .Failures}}<div class="wide"><table class="cards">
<tr><th class="num">times</th><th>last</th><th>workload</th><th>the last in words</th></tr>
{{range .Failures}}<tr><td class="num" data-is="times">{{.Count}}</td><td class="when" data-is="last">{{time .Last}}</td><td class="name">{{with .Workload}}{{.}}{{else}}–{{end}}</td><td class="says">{{prose .Text}}</td></tr>
{{end}}</table></div>
{{else}}<p>Nothing failed.</p>
{{end}}<h2>Settings that were changed, and who asked</h2>
{{if .Changed}}<div class="wide"><table>
<tr><th>setting</th><th class="num">by homenode</th><th class="num">by order</th><th class="num">restored</th><th class="num">changed by another program</th></tr>
{{range .Changed}}<tr><th>{{.Setting}}</th><td class="num">{{.Count}}</td><td class="num">{{.Ordered}}</td><td class="num">{{.PutBack}}</td><td class="num">{{.ByOthers}}</td></tr>
{{end}}</table></div>
{{else}}<p>No setting was changed.</p>
{{end}}{{if .Orders}}<div class="wide"><table class="cards">
<tr><th>when</th><th>who</th><th>workload</th><th>what</th></tr>
{{range .Orders}}<tr><td class="when">{{time .At}}</td><td>{{.By}}</td><td class="name">{{with .Workload}}{{.}}{{else}}–{{end}}</td><td class="says">{{prose .Text}}</td></tr>
{{end}}</table></div>
{{if gt .Ordered (len .Orders)}}<p><small>The {{len .Orders}} newest of {{.Ordered}}.</small></p>{{end}}
{{else}}<p>Nobody asked for anything.</p>
{{end}}`))
})
