package share

import (
	"math"
	"slices"
)

// cover gives the whole cores that so many CPUs need, the last of the node first. Where limits
// hold batch work to the budget, that is all of it; else to the nearest core, within the room.
func (m *NodeState) cover(n *Node, cpus, room float64, trims bool) {
	for _, c := range n.Cores[:len(n.Cores)-1] { // the last is the floor
		have, core := float64(m.Given.Len()), float64(c.Len())
		if (trims && have-core < cpus+core/4) || (!trims && have <= room && have <= cpus+slack*core) {
			break
		}
		m.Given = m.Given.Minus(c)
	}
	more, most := 0, int(growth*float64(n.Pool.Len()))
	for _, c := range slices.Backward(n.Cores) {
		have, core := float64(m.Given.Len()), float64(c.Len())
		if c.SubsetOf(m.Given) {
			continue
		}
		if (trims && have >= cpus) ||
			(!trims && (have+core > room || have+core/2 > cpus || (more > 0 && more+c.Len() > most))) {
			return
		}
		m.Given, more = m.Given.Union(c), more+c.Len()
	}
}

// may returns the CPUs of a node that batch work may keep busy: its budget without the crumb of a CPU at its end. A
// part of a CPU is one CPU more for a part of the time. In that time online work answers as with the whole CPU more,
// so a small part costs its slowest answers as much as a large one, and brings batch work little.
func (m *NodeState) may() float64 {
	if whole := math.Floor(m.CPUs); m.CPUs-whole < min(crumb, crumbOf*whole) {
		return whole
	}
	return m.CPUs
}

// level is how much each batch workload may use of a node at most, so that all together use
// the budget and not all of the cores that it needs. Who wants more than that has that, and
// all of those alike, as the kernel shares among cgroups of one weight.
func (m *NodeState) level(in *Input, n *Node, cpus float64, trims bool) {
	given, half := float64(m.Given.Len()), point/2*float64(n.Pool.Len())
	if m.Loose = given-cpus < half; !trims {
		m.Level, m.Loose = 0, false
		return
	}
	var wants []float64
	total, hungry := 0.0, 0
	for i := range in.Work {
		w := &in.Work[i]
		if !w.CPUs.Intersects(n.Pool) {
			continue
		}
		use := w.Use * w.on(n.ID)
		if total += use; w.Max > 0 && w.Use >= 0.9*w.Max {
			use, hungry = math.Inf(1), hungry+1
		}
		wants = append(wants, use)
	}
	switch {
	case m.Loose && hungry == 0:
		m.Level = 0
		return
	case !m.Loose && total <= cpus+half && (m.Level == 0 || hungry == 0):
		return
	}
	if level := fill(wants, cpus); m.Level == 0 || math.Abs(level-m.Level)*float64(max(1, hungry)) > half {
		m.Level = level
	}
}
