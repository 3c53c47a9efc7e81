package place

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// AccessCosts is what an access costs from the CPUs of a row to the memory of a
// column, the access to a node's own memory being 1. Measured latencies count
// before the firmware's HMAT, and that before its SLIT, which is an estimate. What neither
// tells is taken as no nearer than the farthest that is known.
func AccessCosts(h *topology.Host) []float64 {
	n := len(h.Nodes)
	cost := make([]float64, n*n)
	far := 2.0
	for i := range n {
		for j := range n {
			c, _ := h.Access(i, j)
			if c > 0 {
				c = clampCost(c)
			}
			cost[i*n+j] = c
			far = max(far, c)
		}
	}
	for i := range n {
		for j := range n {
			c := &cost[i*n+j]
			switch {
			case *c == 0 && i == j:
				*c = 1
			case *c == 0:
				*c = far
			}
		}
	}
	return cost
}

// distances says what an access from a home costs to each other node, and how
// that is known.
func (l *Ledger) distances(home topology.NodeSet) []plan.Distance {
	h := l.host
	var out []plan.Distance
	for i, from := range h.Nodes {
		if !home.Has(from.ID) || from.CPUs.Empty() {
			continue
		}
		for j, to := range h.Nodes {
			if i == j || to.Memory == 0 {
				continue
			}
			_, source := h.Access(i, j)
			out = append(out, plan.Distance{From: from.ID, To: to.ID, Times: l.access[i*len(h.Nodes)+j], Source: source})
		}
		break // one node's view; the others' are its like
	}
	return out
}

// clampCost keeps nonsense tables from turning the search around: no memory is
// nearer than a node's own, and past a hundredfold all is equally far.
func clampCost(c float64) float64 { return min(max(c, 1), 100) }
