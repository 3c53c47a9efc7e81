package balance

import (
	"math"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// leastGap is how much busier a node must be than the least busy one: ESXi's
	// Numa.MigImbalanceThreshold.
	leastGap = 0.1

	// leastLost is the thread time, in CPUs, that must be at stake: less is within
	// what one look differs from the next.
	leastLost = 0.1

	// busyBandwidth is the use of a node's bandwidth from which accesses wait
	// noticeably: below the knee of loaded latency curves they do not (docs/design/measuring.md).
	busyBandwidth = 0.6

	// lowLocality is what at most lies near of work that could have all of it near.
	lowLocality = 0.8
)

// trouble is what triggers say, in the model's terms.
type trouble struct {
	triggers       []Trigger
	cpu            []bool // by node
	traffic        []bool
	short          []bool
	far            []*work
	farFromPartner []*work // far from what they are near to
}

func (t *trouble) hot(i int) bool { return t.cpu[i] || t.traffic[i] || t.short[i] }

// find looks for what is wrong in every look of the window. Nodes that changed
// within it are left out: what was seen of them is no longer so.
func (m *model) find(looks []Sample, settling []bool) *trouble {
	n := len(m.rooms)
	t := &trouble{cpu: make([]bool, n), traffic: make([]bool, n), short: make([]bool, n)}
	for i := range n {
		t.cpu[i] = !settling[i]
		t.traffic[i] = !settling[i]
		t.short[i] = !settling[i] && m.short(i, m.free[i]) > 0
	}
	for k := range looks {
		all, least := &m.wanted[k], math.Inf(1)
		for i := range m.rooms {
			if m.rooms[i].CPUs > 0 {
				least = min(least, all.load[i]/float64(m.rooms[i].CPUs))
			}
		}
		for i := range m.rooms {
			t.cpu[i] = t.cpu[i] && m.isCrowded(i, all.load[i], least)
			traffic := all.traffic[i]
			if told := looks[k].Traffic; i < len(told) && told[i] >= 0 {
				traffic += float64(told[i]) - all.plain[i] // the reserve stays on top
			}
			t.traffic[i] = t.traffic[i] && traffic >= busyBandwidth*float64(m.rooms[i].Bandwidth)
			t.short[i] = t.short[i] && i < len(looks[k].Free) && m.short(i, float64(looks[k].Free[i])) > 0
		}
	}
	m.findNodes(t)
	for i := range m.workloads {
		m.findFar(t, &m.workloads[i])
		m.findFarFromPartner(t, &m.workloads[i])
	}
	return t
}

func (m *model) isCrowded(i int, load, least float64) bool {
	r := &m.rooms[i]
	if r.CPUs == 0 {
		return load > leastLost
	}
	saved := m.load[i] + m.kept[i]
	return load/float64(r.CPUs) > least+leastGap && saved > 0 && m.crowding(i) >= leastLost && load > r.Cores
}

func (m *model) findNodes(t *trouble) {
	for i := range m.rooms {
		id := m.rooms[i].Node
		if t.cpu[i] {
			var more []words.Reason
			if m.kept[i] > 0.05 {
				more = append(more, words.Because(words.KeptIdle, m.kept[i]))
			}
			t.triggers = append(t.triggers, Trigger{Kind: CPUPressure, Node: id, Reason: words.Because(
				words.ShortOfCPU, id, m.load[i], m.rooms[i].CPUs, m.rooms[i].Cores, append(more, m.leastBusy()...))})
		}
		if t.traffic[i] {
			mibs := m.traffic[i]
			if m.counted[i] >= 0 {
				mibs += m.counted[i] - m.plain[i]
			}
			t.triggers = append(t.triggers, Trigger{Kind: BandwidthPressure, Node: id, Reason: words.Because(
				words.ShortOfBandwidth, id, mibs, m.rooms[i].Bandwidth, mibs/float64(m.rooms[i].Bandwidth),
				words.Because(m.knownFrom(i)))})
		}
		if t.short[i] {
			t.triggers = append(t.triggers, Trigger{Kind: MemoryShortage, Node: id, Reason: words.Because(
				words.ShortOfMemory, id, m.free[i], m.host.Nodes[i].Memory, lowFree)})
		}
	}
}

// knownFrom is how the traffic of node i is known.
func (m *model) knownFrom(i int) words.Code {
	switch {
	case m.counted[i] >= 0:
		return words.CountedAtNode
	case m.measured[i] >= 0.99*m.plain[i]:
		return words.Counted
	case m.measured[i] < 0.01*m.plain[i]:
		return words.Estimated
	}
	return words.PartlyCounted
}

// leastBusy is where the load is least.
func (m *model) leastBusy() []words.Reason {
	best := -1
	for i := range m.rooms {
		if m.rooms[i].CPUs > 0 &&
			(best < 0 || m.load[i]/float64(m.rooms[i].CPUs) < m.load[best]/float64(m.rooms[best].CPUs)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return words.Reasons(words.Because(words.LeastBusy, m.rooms[best].Node, m.load[best], m.rooms[best].CPUs))
}

// findFar finds work that loses much by distance: with all of its memory where it
// runs it would lose nothing.
func (m *model) findFar(t *trouble, w *work) {
	if w.placed == nil || w.placed.Class != workload.Shared || w.kib == 0 {
		return
	}
	near, cost := 0.0, 0.0
	for _, p := range w.run {
		for _, q := range w.mem {
			if p.node == q.node {
				near += p.share * q.share
			}
			cost += p.share * q.share * m.local[p.node] * (m.access[p.node*len(m.rooms)+q.node] - 1)
		}
	}
	lost := w.accesses * cost / second
	if lost < leastLost {
		return
	}
	if a := w.Observation.Accesses; a.From != "" && near < 1 { // caches and hot pages: better known than expected
		lost *= min(1, (1-a.Local)/(1-near))
		near = a.Local
	}
	wide := w.placed.Home.Len() > 1
	if near >= lowLocality || lost < leastLost ||
		(wide && w.demand > m.cpusOf(w.placed.Home)/float64(w.placed.Home.Len())) {
		return
	}
	t.far = append(t.far, w)
	t.triggers = append(t.triggers, Trigger{Kind: LowLocality, Node: topology.None, Workload: w.id,
		Reason: words.Because(
			words.FarFromMemory, w.id, near, lost)})
}

// cpusOf is the CPUs that a home has for shared work. Cores do not count: that threads of it would share
// some is no reason for several nodes.
func (m *model) cpusOf(home topology.NodeSet) float64 {
	sum := 0
	for i := range m.rooms {
		if home.Has(m.rooms[i].Node) {
			sum += m.rooms[i].CPUs
		}
	}
	return float64(sum)
}
