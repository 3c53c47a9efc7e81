package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
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
func distances(l *Ledger, home topology.NodeSet) []plan.Distance {
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
			out = append(out, plan.Distance{From: from.ID, To: to.ID, Times: l.access[i*len(h.Nodes)+j],
				Source: source})
		}
		break // one node's view; the others' are its like
	}
	return out
}

// clampCost keeps nonsense tables from turning the search around: no memory is
// nearer than a node's own, and past a hundredfold all is equally far.
func clampCost(c float64) float64 { return min(max(c, 1), 100) }

// accessOf is the mean cost of an access when each vCPU touches all memory
// alike; 1 when there is no memory or no CPU to speak of.
func (l *Ledger) accessOf(shares []share, memory topology.KiB) float64 {
	n := len(l.nodes)
	sum, vcpus := 0.0, 0.0
	for _, a := range shares {
		vcpus += a.vcpus
	}
	if vcpus <= 0 {
		return 1
	}
	if memory <= 0 {
		// Of memory nobody knows, all that can be said is that it will lie where it is
		// first touched: as the CPUs do.
		for _, a := range shares {
			for _, b := range shares {
				sum += a.vcpus * b.vcpus * l.access[a.node*n+b.node]
			}
		}
		return sum / (vcpus * vcpus)
	}
	total := 0.0
	for _, b := range shares {
		total += float64(b.memory)
		if b.memory == 0 {
			continue
		}
		for _, a := range shares {
			sum += a.vcpus * float64(b.memory) * l.access[a.node*n+b.node]
		}
	}
	if total <= 0 {
		return 1
	}
	return sum / (vcpus * total)
}

// accessNow is the mean access cost of a placement in the ledger.
func (l *Ledger) accessNow(h *holding) float64 {
	return l.accessOf(l.sharesOf(h), workload.Total(h.Memory))
}

// Access is the mean access cost of a placement, local being 1.
func (l *Ledger) Access(p *plan.Placement) float64 { return l.accessNow(l.newHolding(p)) }

// order is the nodes from nearest to farthest for memory on node p: whose CPUs
// reach it cheapest.
func (l *Ledger) order(p int) []int32 {
	n := len(l.nodes)
	if l.nearest == nil {
		l.nearest = sortedRows(n, func(p, i int) float64 { return l.access[i*n+p] })
	}
	return l.nearest[p*n : (p+1)*n]
}

// orderFrom is the nodes from nearest to farthest for CPUs of node p: whose
// memory they reach cheapest.
func (l *Ledger) orderFrom(p int) []int32 {
	n := len(l.nodes)
	if l.nearestFrom == nil {
		l.nearestFrom = sortedRows(n, func(p, i int) float64 { return l.access[p*n+i] })
	}
	return l.nearestFrom[p*n : (p+1)*n]
}

// sortedRows is, for every node, all nodes by rising cost. A node is nearest to
// itself, whatever a table says of others.
func sortedRows(n int, cost func(p, i int) float64) []int32 {
	rows := make([]int32, n*n)
	for p := range n {
		row := rows[p*n : (p+1)*n]
		row[0] = int32(p)
		for i, k := 0, 1; i < n; i++ {
			if i != p {
				row[k] = int32(i)
				k++
			}
		}
		slices.SortStableFunc(row[1:], func(a, b int32) int { return cmp.Compare(cost(p, int(a)), cost(p, int(b))) })
	}
	return rows
}
