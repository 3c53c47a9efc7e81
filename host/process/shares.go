package process

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// shares says to which home node the next page goes.
type shares struct {
	home    []topology.NodeID
	deficit map[topology.NodeID]int64 // bytes a node should still get
	full    map[topology.NodeID]bool
}

// newShares divides the memory of a workload among its home nodes as step.Shares
// say, evenly when they say nothing, and takes off what lies there already.
func newShares(step plan.Step, home topology.NodeSet, have map[topology.NodeID]int64) *shares {
	s := &shares{home: home.Slice(), deficit: map[topology.NodeID]int64{}, full: map[topology.NodeID]bool{}}
	weight := map[topology.NodeID]int64{}
	var sum, total int64
	for _, m := range step.Shares {
		if home.Has(m.Node) && m.KiB > 0 {
			weight[m.Node] += int64(m.KiB)
			sum += int64(m.KiB)
		}
	}
	if sum == 0 {
		for _, n := range s.home {
			weight[n] = 1
			sum++
		}
	}
	for _, b := range have {
		total += b
	}
	pages, rest := total/basePage, total/basePage
	type part struct {
		node      topology.NodeID
		pages     int64
		remainder float64
	}
	var parts []part
	for _, n := range s.home {
		exact := float64(pages) * float64(weight[n]) / float64(sum)
		p := part{n, int64(exact), exact - float64(int64(exact))}
		rest -= p.pages
		parts = append(parts, p)
	}
	// Largest remainder; the lower node when equal.
	slices.SortStableFunc(parts, func(a, b part) int {
		switch {
		case a.remainder > b.remainder:
			return -1
		case a.remainder < b.remainder:
			return 1
		}
		return int(a.node - b.node)
	})
	for _, p := range parts {
		if rest > 0 {
			p.pages++
			rest--
		}
		s.deficit[p.node] = p.pages*basePage - have[p.node]
	}
	return s
}

// next is the node for bytes more. A run of near pages stays on the node it began
// on while that has a deficit; a new one goes to the node with the largest. Once a
// node is full the others take their own share and not the full one's. None is
// returned when no node takes any.
func (s *shares) next(current topology.NodeID, near bool, bytes int64) topology.NodeID {
	if near && current >= 0 && !s.full[current] && (s.deficit[current] >= bytes || len(s.home) == 1) {
		return current
	}
	best := topology.NodeID(topology.None)
	for _, n := range s.home {
		if !s.full[n] && (best < 0 || s.deficit[n] > s.deficit[best]) {
			best = n
		}
	}
	if best >= 0 && len(s.full) > 0 && s.deficit[best] <= 0 {
		return topology.None
	}
	return best
}

func (s *shares) give(n topology.NodeID, bytes int64) { s.deficit[n] -= bytes }

// firstFull is a home node without room, or None.
func (s *shares) firstFull() topology.NodeID {
	for _, n := range s.home {
		if s.full[n] {
			return n
		}
	}
	return topology.None
}
