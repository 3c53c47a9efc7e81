package balance

import (
	"math"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

func (d *decider) candidate(o *option) Candidate {
	c := Candidate{
		Kind: o.kind, Gain: time.Duration(o.gain), Cost: time.Duration(o.cost), Saves: round3(o.saves / second),
		Bytes: int64(o.kib) << 10, Took: time.Duration(o.seconds * second), Rejected: d.whyRejected(o),
	}
	for i := range o.changes {
		s := &o.changes[i]
		c.Changes = append(c.Changes, Change{Workload: s.w.id, From: s.w.placed.Home, To: s.to,
			Bytes: int64(s.kib) << 10})
	}
	if w := o.changes[0].w; o.kind == Widen {
		c.split = words.Because(words.SplitWaits, o.changes[0].to, w.Observation.Waited, w.placed.Home,
			math.Ceil(w.demand))
	}
	c.Reason = words.Because(words.ChangeSaves, o.saves/second, o.gain, o.horizon*second, o.cost, o.kib, c.Took)
	return c
}

// What returns the change in words: "move /a from node 0 to node 1".
func (c *Candidate) What() words.Reason {
	var parts []words.Reason
	for _, x := range c.Changes {
		if x.From.Equal(x.To) {
			parts = append(parts, words.Because(words.MemoryHome, x.Workload, x.To))
		} else {
			parts = append(parts, words.Because(words.ChangeHome, x.Workload, x.From, x.To))
		}
	}
	return words.Because(words.Change, c.Kind, parts)
}

// Verdict returns the action, or the reason against one.
func (r *Report) Verdict() words.Reason {
	if r.Chosen == nil {
		return r.Quiet
	}
	code := words.Doing
	if r.State == Would {
		code = words.WouldDo
	}
	return words.Because(code, r.Chosen.What(), r.because(), r.Chosen.Reason)
}

// because is the trigger that the choice is about.
func (r *Report) because() words.Reason {
	for _, t := range r.Triggers {
		for _, c := range r.Chosen.Changes {
			if t.Workload == c.Workload || (t.Workload == "" && c.From.Has(t.Node)) {
				return t.Reason
			}
		}
	}
	return r.Triggers[0].Reason
}

func (m *model) report() []Node {
	out := make([]Node, len(m.rooms))
	for i := range m.rooms {
		r := &m.rooms[i]
		out[i] = Node{ID: r.Node, CPUs: r.CPUs, Load: round3(m.load[i]), Kept: round3(m.kept[i]),
			Traffic:   math.Round(m.plain[i]),
			Bandwidth: r.Bandwidth, Free: topology.KiB(max(topology.None, m.free[i])), Important: m.kept[i] > 0}
		if m.plain[i] > 0 {
			out[i].Known = round3(m.measured[i] / m.plain[i])
		}
	}
	return out
}

// inOrder says how far from trouble the nodes are.
func (m *model) inOrder() words.Reason {
	busiest := -1
	full := -1
	least := -1
	for i := range m.rooms {
		if m.rooms[i].CPUs > 0 && (busiest < 0 || m.part(i) > m.part(busiest)) {
			busiest = i
		}
		if m.rooms[i].CPUs > 0 && (least < 0 || m.part(i) <= m.part(least)) {
			least = i
		}
		if full < 0 || m.traffic[i]/float64(m.rooms[i].Bandwidth) > m.traffic[full]/float64(m.rooms[full].Bandwidth) {
			full = i
		}
	}
	if busiest < 0 {
		return words.Because(words.NoSharedCPUs)
	}
	high := &m.rooms[busiest]
	low := &m.rooms[least]
	used := m.traffic[full] / float64(m.rooms[full].Bandwidth)
	if busiest == least {
		return words.Because(words.BalancedOne, m.load[busiest]+m.kept[busiest], high.CPUs, high.Node, used)
	}
	return words.Because(words.Balanced, m.load[busiest]+m.kept[busiest], high.CPUs, high.Node,
		m.load[least]+m.kept[least], low.CPUs, low.Node, used)
}

// part is how much of a node's CPUs is wanted.
func (m *model) part(i int) float64 { return (m.load[i] + m.kept[i]) / float64(m.rooms[i].CPUs) }

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }
