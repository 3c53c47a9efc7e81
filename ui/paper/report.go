package paper

import (
	"fmt"
	"html/template"
	"math"
	"slices"
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
	text := fmt.Sprintf("%s, %s, %s, %s", words.Count(m.Packages, "package"), words.Count(m.Nodes, "NUMA node"),
		words.Count(m.CPUs, "CPU"), words.Size(m.MemoryKiB))
	if m.CPU != "" {
		text += "; " + m.CPU
	}
	return text
}

var reportPage = templateOf("report.html")
