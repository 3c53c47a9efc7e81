package balance

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
)

// lost is the thread time lost a second, ns, weighted by importance.
func (m *model) lost() float64 {
	sum := m.far
	for i := range m.rooms {
		sum += m.lostOn(i)
	}
	return sum
}

func (m *model) lostOn(i int) float64 {
	sum := m.hits[i] * m.local[i] * queue(m.traffic[i]/float64(m.rooms[i].Bandwidth))
	if m.load[i] > 1e-9 {
		sum += second * m.crowding(i) * m.heavy[i] / m.load[i]
	}
	if m.free[i] != topology.None && m.users[i] > 0 {
		sum += second * shortWait * m.users[i] * m.short(i, m.free[i])
	}
	return sum
}

// crowding is the CPUs that are waited for on a node.
func (m *model) crowding(i int) float64 {
	r := &m.rooms[i]
	return place.Crowding(float64(r.CPUs), r.Cores, m.load[i]+m.kept[i])
}

// idle is the CPUs of a node that work there neither wants nor keeps idle, below 0 where it wants more.
func (m *model) idle(i int) float64 { return float64(m.rooms[i].CPUs) - m.load[i] - m.kept[i] }

// crowdedFor is for how many seconds work of its present size has been too much for a
// node: since the load came that the older ones left no CPUs for. When that goes, the
// crowd does.
func (m *model) crowdedFor(i int) float64 {
	type part struct{ age, load float64 }
	var here []part
	for k := range m.workloads {
		w := &m.workloads[k]
		for _, p := range w.run {
			if p.node == i && w.demand > 0 {
				here = append(here, part{w.age, p.share * (w.demand + w.kept)})
			}
		}
	}
	slices.SortStableFunc(here, func(x, y part) int { return -cmp.Compare(x.age, y.age) })
	sum := 0.0
	for _, p := range here {
		if sum += p.load; place.Crowding(float64(m.rooms[i].CPUs), m.rooms[i].Cores, sum) > 0 {
			return p.age
		}
	}
	return 0
}

// short is how far a node is below what should be free, 0 to 1.
func (m *model) short(i int, free float64) float64 {
	low := lowFree * float64(m.host.Nodes[i].Memory)
	if (free < 0 && free == topology.None) || low <= 0 || m.host.Nodes[i].OfGPU() || m.demotes(i) {
		return 0
	}
	return min(1, max(0, (low-free)/low))
}

func queue(u float64) float64 {
	u = min(max(u, 0), mostBusy)
	return queueShare * u / (2 * (1 - u))
}
