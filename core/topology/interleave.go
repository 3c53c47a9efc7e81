package topology

import "math"

const (
	// mostWeight is the largest weight that homenode proposes for a node, of the kernel's 1 to 255 pages in turn
	// (mm/mempolicy.c). Rounding down then costs three further nodes 3/64 at most, under a twentieth.
	mostWeight = 64

	// interleaveEnough is the part of the best bandwidth that is enough: the smallest weights that reach it are taken.
	interleaveEnough = 0.97
)

// Interleave returns weights for putting pages on nodes in turn, so that bandwidth-bound work has most bandwidth, and
// the part of the best bandwidth, 0 to 1, that they reach. bandwidth is the CPUs' from each node while they read no
// other, in any unit; 0 leaves the node out. With parts f of its pages on
// the nodes, work is done when the slowest node is: it has min(bandwidth/f), and at best the sum of all. That is f in
// proportion to bandwidth, which whole weights come near to.
func Interleave(bandwidth []float64) (weights []int, reached float64) {
	most, sum := 0.0, 0.0
	for _, b := range bandwidth {
		if b > 0 && !math.IsInf(b, 1) {
			most = max(most, b)
			sum += b
		}
	}
	weights = make([]int, len(bandwidth))
	if sum == 0 || math.IsInf(sum, 1) {
		return weights, 0
	}
	try := make([]int, len(bandwidth))
	for scale := 1; scale <= mostWeight && reached < interleaveEnough; scale++ {
		for _, whole := range []func(float64) float64{math.Round, math.Floor} {
			for i, b := range bandwidth {
				try[i] = 0
				if b > 0 && !math.IsInf(b, 1) {
					try[i] = int(whole(b / most * float64(scale)))
				}
			}
			got := interleaved(bandwidth, try) / sum
			if got > reached+1e-9 {
				reached = got
				copy(weights, try)
			}
		}
	}
	return weights, reached
}

// interleaved is the bandwidth of pages that lie on nodes by weights.
func interleaved(bandwidth []float64, weights []int) float64 {
	all := 0
	for _, w := range weights {
		all += w
	}
	least := math.Inf(1)
	for i, w := range weights {
		if w > 0 {
			least = min(least, bandwidth[i]*float64(all)/float64(w))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// InterleaveWeights returns weights for all nodes, in the order of Nodes, and their source. The kernel has one
// table for all CPUs: each node counts with the bandwidth from the CPUs that read it fastest. It returns nil where no
// matrix knows more than one node, or all memory is alike.
func (h *Host) InterleaveWeights() (weights []int, source Source) {
	best := make([]float64, len(h.Nodes))
	apart := false
	for i := range h.Nodes {
		if h.Nodes[i].CPUs.Empty() {
			continue
		}
		bandwidth, from := h.InterleaveFrom(i)
		if bandwidth == nil {
			continue
		}
		source = from
		for j, b := range bandwidth {
			best[j] = max(best[j], b)
			apart = apart || (b > 0 && h.Nodes[j].Apart())
		}
	}
	if !apart {
		return nil, Assumed
	}
	weights, _ = Interleave(best)
	return weights, source
}

// InterleaveFrom returns the bandwidth to each node from the CPUs of node i, in the order of Nodes: measured, or the
// firmware's; nil when neither knows more than one. A GPU's memory is left out.
func (h *Host) InterleaveFrom(i int) (bandwidth []float64, source Source) {
	read := func(m [][]float64) int {
		known := 0
		bandwidth = make([]float64, len(h.Nodes))
		for j := range h.Nodes {
			if !h.Nodes[j].OfGPU() {
				bandwidth[j] = at(m, i, j)
			}
			if bandwidth[j] > 0 {
				known++
			}
		}
		return known
	}
	if m := h.Measured; m != nil && read(m.BandwidthMiBs) > 1 {
		return bandwidth, MeasuredBefore
	}
	if read(h.HMATBandwidth) > 1 {
		return bandwidth, FromHMAT
	}
	return nil, Assumed
}

// BandwidthNodes returns a home and the memory without CPUs whose nearest CPUs are in it. A GPU's memory is its own.
// Work that is bound by memory bandwidth has its pages there in turn.
func (h *Host) BandwidthNodes(home NodeSet) NodeSet {
	out := home.Clone()
	for j := range h.Nodes {
		n := &h.Nodes[j]
		if n.Kind != Special || n.OfGPU() || !h.AllowedMems.Has(n.ID) {
			continue
		}
		nearest, near := 0, NodeSet{}
		for i := range h.Nodes {
			if h.Nodes[i].CPUs.Empty() || i >= len(h.Distances) || j >= len(h.Distances[i]) {
				continue
			}
			d := h.Distances[i][j]
			if near.Empty() || d < nearest {
				nearest, near = d, NodeSet{}
			}
			if d == nearest {
				near.Add(h.Nodes[i].ID)
			}
		}
		if near.Intersects(home) {
			out.Add(n.ID)
		}
	}
	return out
}
