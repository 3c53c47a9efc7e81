package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/homenode/homenode/core/topology"
)

const (
	// localNs is the idle latency of local memory where nobody measured it: mlc on
	// two Xeon Platinum 8163 says 81.6 ns and lmbench 67 to 100 ns
	// (docs/design/simulator.md).
	localNs = 82

	// nodeMiBs is the memory bandwidth of a node where nobody measured it, the same
	// as the engine takes (core/place, unknownBandwidth).
	nodeMiBs = 150_000

	// linkFall is how fast the bandwidth to another node falls with its latency:
	// link = local bandwidth × (local latency / remote latency)^linkFall. mlc on
	// Cascade Lake has 90.9 GB/s local and 34.5 GB/s remote at a latency ratio of
	// 1.74 (80.8 and 140.4 ns), which gives 1.75; 1.5 is on the friendly side.
	linkFall = 1.5

	// waitShare is the time a memory controller or a link works on one access, as
	// part of the local latency: the wait at utilisation ρ is that of an M/D/1 queue,
	// waitShare × local latency × ρ / (2 (1 − ρ)).
	waitShare = 0.25

	// mostBusy bounds ρ. Programs cannot ask for more than there is; at saturation
	// accesses cost 1 + 0.25 × 9.5 = 3.4 times the idle latency, and mlc measured
	// 506 ns against 145.8 ns idle, 3.5 times, on a saturated node.
	mostBusy = 0.95
)

// model is what accesses cost on a host.
type model struct {
	n       int
	idle    []float64 // ns, row × n + column: CPUs of the row, memory of the column
	local   float64   // ns, mean over nodes with CPUs and memory
	node    []float64 // MiB/s of each node's memory
	link    []float64 // MiB/s from the column's memory to the row's CPUs
	near    [][]int   // by node: all nodes, nearest first
	traffic []float64 // MiB/s, row × n + column
	cost    []float64 // ns under the traffic
}

func newModel(h *topology.Host) *model {
	n := len(h.Nodes)
	m := &model{n: n, idle: make([]float64, n*n), node: make([]float64, n), link: make([]float64, n*n),
		traffic: make([]float64, n*n), cost: make([]float64, n*n)}
	for i := range n {
		for j := range n {
			m.idle[i*n+j] = idleNs(h, i, j)
		}
	}
	k := 0
	for i := range n {
		if !h.Nodes[i].CPUs.Empty() && h.Nodes[i].Memory != 0 {
			m.local += m.idle[i*n+i]
			k++
		}
		m.near = append(m.near, nearest(m.idle[i*n:(i+1)*n], i))
	}
	if m.local /= float64(max(1, k)); m.local == 0 {
		m.local = localNs
	}
	for j := range n {
		m.node[j] = measuredMiBs(h, j, j)
		if h.Nodes[j].CPUs.Empty() { // no CPU measures it from there
			for i := range n {
				m.node[j] = max(m.node[j], measuredMiBs(h, i, j))
			}
		}
		m.node[j] = cmp.Or(m.node[j], nodeMiBs)
	}
	for i := range n {
		for j := range n {
			if m.link[i*n+j] = measuredMiBs(h, i, j); m.link[i*n+j] == 0 {
				ratio := m.idle[j*n+j] / m.idle[i*n+j]
				m.link[i*n+j] = m.node[j] * min(1, math.Pow(ratio, linkFall))
			}
		}
	}
	copy(m.cost, m.idle)
	return m
}

// idleNs is measured, or the SLIT distance times what local memory is taken to
// cost; what neither tells is as far as twice local.
func idleNs(h *topology.Host, i, j int) float64 {
	if m := h.Measured; m != nil && i < len(m.LatencyNs) && j < len(m.LatencyNs[i]) && m.LatencyNs[i][j] > 0 {
		return m.LatencyNs[i][j]
	}
	at := func(i, j int) int {
		if i < len(h.Distances) && j < len(h.Distances[i]) {
			return h.Distances[i][j]
		}
		return topology.None
	}
	own, d := at(i, i), at(i, j)
	switch {
	case i == j:
		return localNs
	case own <= 0, d < own, d >= 255: // ACPI 6.5, 5.2.17: 255 is "unreachable"
		return 2 * localNs
	}
	return localNs * float64(d) / float64(own)
}

func measuredMiBs(h *topology.Host, i, j int) float64 {
	if m := h.Measured; m != nil && i < len(m.BandwidthMiBs) && j < len(m.BandwidthMiBs[i]) &&
		m.BandwidthMiBs[i][j] > 0 {
		return m.BandwidthMiBs[i][j]
	}
	return 0
}

// nearest is all nodes by what they cost from node i, i first.
func nearest(ns []float64, i int) []int {
	order := []int{i}
	for j := range ns {
		if j != i {
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order[1:], func(a, b int) int { return cmp.Compare(ns[a], ns[b]) })
	return order
}

// wait is the time spent waiting at a utilisation, as part of local latency.
func wait(rho float64) float64 {
	rho = min(rho, mostBusy)
	return waitShare * rho / (2 * (1 - rho))
}

// load turns traffic into cost; moving is what page moves read and write on each
// node, MiB/s.
func (m *model) load(moving []float64) {
	n := m.n
	for j := range n {
		sum := moving[j]
		for i := range n {
			sum += m.traffic[i*n+j]
		}
		queue := wait(sum / m.node[j])
		for i := range n {
			at := i*n + j
			c := m.idle[at] + queue*m.idle[j*n+j]
			if i != j && m.traffic[at] > 0 {
				c += wait(m.traffic[at]/m.link[at]) * m.idle[j*n+j]
			}
			m.cost[at] = c
		}
	}
}
