package balance

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
)

func (d *decider) candidate(o *option) Candidate {
	c := Candidate{
		Kind: o.kind, Gain: time.Duration(o.gain), Cost: time.Duration(o.cost), Saves: round3(o.saves / second),
		Bytes: int64(o.kib) << 10, Took: time.Duration(o.seconds * second), Rejected: o.rejected,
	}
	for i := range o.changes {
		s := &o.changes[i]
		c.Changes = append(c.Changes, Change{Workload: s.w.id, From: s.w.placed.Home, To: s.to, Bytes: int64(s.kib) << 10})
	}
	c.Reason = fmt.Sprintf("It saves %.2f CPUs now lost to waiting: %s of thread time within %s, for %s of cost (%s to move in %s).",
		o.saves/second, seconds(o.gain), round(time.Duration(o.horizon*second)), seconds(o.cost), size(o.kib), round(c.Took))
	return c
}

// Words names a change: "/a from node 0 to 1".
func (c *Candidate) Words() string {
	var parts []string
	for _, x := range c.Changes {
		switch {
		case x.From.Equal(x.To):
			parts = append(parts, fmt.Sprintf("memory of %s to its home, node %s", x.Workload, x.To))
		default:
			parts = append(parts, fmt.Sprintf("%s from node %s to %s", x.Workload, x.From, x.To))
		}
	}
	return string(c.Kind) + " " + strings.Join(parts, " and ")
}

// Words is the report in one line: what is done, or why nothing is.
func (r *Report) Words() string {
	if r.Chosen == nil {
		return r.Quiet
	}
	would := ""
	if r.State == Would {
		would = "would "
	}
	return fmt.Sprintf("%s%s. %s %s", would, r.Chosen.Words(), r.because(), r.Chosen.Reason)
}

// because is the trigger that the choice is about.
func (r *Report) because() string {
	for _, t := range r.Triggers {
		for _, c := range r.Chosen.Changes {
			if t.Workload == c.Workload || t.Workload == "" && c.From.Has(t.Node) {
				return t.Text
			}
		}
	}
	return r.Triggers[0].Text
}

func (m *model) report() []Node {
	out := make([]Node, len(m.rooms))
	for i := range m.rooms {
		r := &m.rooms[i]
		out[i] = Node{ID: r.Node, CPUs: r.CPUs, Load: round3(m.load[i]), Kept: round3(m.kept[i]), Traffic: math.Round(m.plain[i]),
			Bandwidth: r.Bandwidth, Free: topology.KiB(max(topology.None, m.free[i])), Important: m.kept[i] > 0}
		if m.plain[i] > 0 {
			out[i].Known = round3(m.measured[i] / m.plain[i])
		}
	}
	return out
}

// inOrder says how far from trouble the nodes are.
func (m *model) inOrder() string {
	busiest, full, least := -1, -1, -1
	for i := range m.rooms {
		if m.rooms[i].CPUs > 0 && (busiest < 0 || m.part(i) > m.part(busiest)) {
			busiest = i
		}
		if m.rooms[i].CPUs > 0 && (least < 0 || m.part(i) < m.part(least)) {
			least = i
		}
		if full < 0 || m.traffic[i]/float64(m.rooms[i].Bandwidth) > m.traffic[full]/float64(m.rooms[full].Bandwidth) {
			full = i
		}
	}
	if busiest < 0 {
		return "No node has CPUs for shared work."
	}
	text := fmt.Sprintf("Nothing is wrong for long enough: the busiest node, %d, has %.1f CPUs wanted of %d, the least busy, %d, %.1f of %d; at most %.0f %% of a node's bandwidth is used",
		m.rooms[busiest].Node, m.load[busiest]+m.kept[busiest], m.rooms[busiest].CPUs,
		m.rooms[least].Node, m.load[least]+m.kept[least], m.rooms[least].CPUs, 100*m.traffic[full]/float64(m.rooms[full].Bandwidth))
	return text + "."
}

// part is how much of a node's CPUs is wanted.
func (m *model) part(i int) float64 { return (m.load[i] + m.kept[i]) / float64(m.rooms[i].CPUs) }

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// seconds is ns of thread time, in words.
func seconds(ns float64) string { return fmt.Sprintf("%.1f s", ns/second) }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// size is KiB in words.
func size(kib float64) string {
	for _, u := range []struct {
		name string
		kib  float64
	}{{"TiB", 1 << 30}, {"GiB", 1 << 20}, {"MiB", 1 << 10}} {
		if kib >= u.kib {
			return fmt.Sprintf("%.4g %s", kib/u.kib, u.name)
		}
	}
	return fmt.Sprintf("%.0f KiB", kib)
}
