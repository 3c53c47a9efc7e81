package work

import (
	"cmp"
	"slices"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// pair is a node that memory leaves and one that it goes to. One move is in flight
// per pair: two would only share the way between them.
type pair struct{ from, to topology.NodeID }

const (
	// mostMoves bounds the moves in flight. They share one bandwidth, so that more only
	// make each end later: in the simulator 2 do better than 1, 4 or 8. The third is
	// so that two large ones do not hold up all others.
	mostMoves = 3
	// AgedAfter is how long a move waits at most for others of its kind that are smaller.
	AgedAfter = 5 * time.Minute
)

// transferFor reads from an observation what steps would move. A step that sets memory
// nodes has the kernel move what lies outside.
func transferFor(steps []plan.Step, o *workload.Observation) *Transfer {
	w := &Transfer{
		ID:      steps[0].Workload,
		Steps:   steps,
		Leaves:  map[topology.NodeID]topology.KiB{},
		Arrives: map[topology.NodeID]topology.KiB{},
	}
	s := steps[0]
	for _, x := range steps {
		if x.Kind.MovesPages() {
			s = x
		}
	}
	home, err := topology.ParseNodeSet(s.To)
	if err != nil || home.Empty() || o == nil {
		return w // the driver will say what is wrong
	}
	mem := o.Movable
	if mem == nil {
		mem = o.Memory
	}
	var off topology.KiB
	for _, m := range mem {
		if !home.Has(m.Node) && m.KiB > 0 {
			w.Leaves[m.Node] = m.KiB
			off += m.KiB
		}
	}
	w.Bytes = int64(off) << 10
	for _, x := range s.Shares {
		gets := x.KiB - workload.On(mem, topology.Nodes(x.Node))
		if gets > 0 {
			w.Arrives[x.Node] = gets
		}
	}
	if len(w.Arrives) == 0 {
		for n := range home.All() {
			w.Arrives[n] = off / topology.KiB(home.Len())
		}
	}
	return w
}

func (w *Transfer) pairs() []pair {
	var out []pair
	for from := range w.Leaves {
		for to := range w.Arrives {
			out = append(out, pair{from, to})
		}
	}
	return out
}

// traffic is which moves may begin.
type traffic struct {
	free    map[topology.NodeID]topology.KiB // that moves may fill; a node of unknown memory is not in it
	busy    map[pair]bool                    // in flight
	leaving map[topology.NodeID]bool         // nodes that a move in flight empties
	filling map[topology.NodeID]bool         // nodes that one fills
	moves   int                              // in flight
}

// newTraffic begins with what moves in flight have still to bring.
func newTraffic(h *topology.Host, reserved topology.KiB, tasks map[workload.ID]*Task) *traffic {
	t := &traffic{
		free:    map[topology.NodeID]topology.KiB{},
		busy:    map[pair]bool{},
		leaving: map[topology.NodeID]bool{},
		filling: map[topology.NodeID]bool{},
	}
	if h != nil {
		for _, n := range h.Nodes {
			if n.Free >= 0 {
				t.free[n.ID] = n.Free - reserved
			}
		}
	}
	var moving []workload.ID
	for id, x := range tasks {
		if x.Transfer != nil {
			moving = append(moving, id)
		}
	}
	slices.Sort(moving)
	for _, id := range moving {
		x := tasks[id]
		left := 1.0
		if x.Move != nil && x.Move.Planned > 0 {
			left = max(0, 1-float64(x.Move.Moved)/float64(x.Move.Planned))
		}
		t.begin(x.Transfer, left)
	}
	return t
}

// begin counts a move as in flight, of which the given part is still to come.
func (t *traffic) begin(w *Transfer, left float64) {
	t.moves++
	for _, p := range w.pairs() {
		t.busy[p] = true
	}
	for n := range w.Leaves {
		t.leaving[n] = true
	}
	for n, kib := range w.Arrives {
		t.filling[n] = true
		_, known := t.free[n]
		if known {
			t.free[n] -= topology.KiB(left * float64(kib))
		}
	}
}

// lacks reports whether a node is known to have less room than this.
func (t *traffic) lacks(n topology.NodeID, kib topology.KiB) bool {
	free, known := t.free[n]
	return known && kib > free
}

// fits reports whether the targets have room for all that a move brings.
func (t *traffic) fits(w *Transfer) bool {
	for n, kib := range w.Arrives {
		if t.lacks(n, kib) {
			return false
		}
	}
	return true
}

// choose says which transfers begin now, in order: first what leaves a node that
// others wait to get into, then what has room, the smaller first, so that a big one
// holds up few; one that has waited long goes before. What has no room waits
// while some move empties its target, or fills it, for two would both come short
// there; when none does it is begun all the same, to move what it can and say that
// the node is full.
func (t *traffic) choose(all []*Transfer) []*Transfer {
	short := map[topology.NodeID]bool{} // nodes that somebody finds too full
	for _, w := range all {
		for n, kib := range w.Arrives {
			if t.lacks(n, kib) {
				short[n] = true
			}
		}
	}
	relieves := func(w *Transfer) bool {
		for n := range w.Leaves {
			if short[n] {
				return true
			}
		}
		return false
	}
	rank := func(w *Transfer) int {
		fits := t.fits(w)
		switch {
		case fits && relieves(w):
			return 0
		case fits:
			return 1
		}
		return 2
	}
	order := slices.Clone(all)
	ranks := map[workload.ID]int{}
	for _, w := range order {
		ranks[w.ID] = rank(w)
	}
	slices.SortStableFunc(order, func(a, b *Transfer) int {
		return cmp.Or(cmp.Compare(ranks[a.ID], ranks[b.ID]), -compareBool(a.Aged, b.Aged),
			cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.ID, b.ID))
	})
	var begun []*Transfer
	for _, w := range order {
		waits := !t.fits(w) && t.changing(w)
		if t.moves >= mostMoves || t.blocked(w) || waits {
			continue
		}
		t.begin(w, 1)
		begun = append(begun, w)
	}
	return begun
}

func (t *traffic) blocked(w *Transfer) bool {
	return slices.ContainsFunc(w.pairs(), func(p pair) bool { return t.busy[p] })
}

// changing reports whether a move in flight leaves a node that has no room for w, or
// arrives there.
func (t *traffic) changing(w *Transfer) bool {
	for n, kib := range w.Arrives {
		full := t.lacks(n, kib)
		changing := t.leaving[n] || t.filling[n]
		if full && changing {
			return true
		}
	}
	return false
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
