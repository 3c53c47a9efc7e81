package place

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// explain says what was found, how good it is, and why each move is made.
func (r *repack) explain(out *Repacking) {
	add := func(code words.Code, args ...any) { out.Reasons = append(out.Reasons, words.Because(code, args...)) }
	switch {
	case r.best != nil:
		add(words.MovesAdmit, len(out.Moves), out.KiB)
		switch {
		case out.AtLeast >= len(out.Moves):
			add(words.NoneFewer)
		case out.AtLeast == 0:
			add(words.FewerUnproven)
		case out.Whole:
			add(words.AtLeastChecked, out.AtLeast)
		default:
			add(words.AtLeast, out.AtLeast)
		}
	case out.Reasons == nil:
		add(words.NoMovesFound, r.opt.Moves)
		if out.Whole {
			add(words.AllChecked)
		}
		if n := r.unmovable(); n > 0 {
			add(words.NotMovable, n)
		}
	}
	if out.CutOff {
		add(words.MovesCut, out.Steps)
	}
	explainMoves(r.start, out.Moves, &r.want, out.Result.Placement.Home)
}

// unmovable is how many workloads on the host may not move.
func (r *repack) unmovable() int {
	n := 0
	for i := range r.start.held {
		if h := r.start.held[i]; h.Class != workload.Batch {
			n++
		}
	}
	return n - len(r.movers)
}

// explainMoves gives each move its reasons: for whom it makes room, what is free
// where it goes, and what it costs. w is the workload to admit and home its home; nil for none.
func explainMoves(l *Ledger, moves []Move, w *want, home topology.NodeSet) {
	now := l.clone()
	for i := range moves {
		m := &moves[i]
		now.Remove(m.Workload)
		left := m.From.Home.Minus(m.To.Home)
		successors := m.successors(moves[i+1:], left, w, home)
		add := func(code words.Code, args ...any) { m.Reasons = append(m.Reasons, words.Because(code, args...)) }
		switch {
		case m.Temporary:
			add(words.StepsAside, m.From.Home)
		case successors != nil:
			add(words.MakesRoom, left, successors)
		case left.Empty() && m.From.Home.Equal(m.To.Home):
			add(words.OtherCPUs, m.To.Home)
		case m.After < m.Before-tiny:
			add(words.ComesNearer)
		default:
			add(words.Returns, m.To.Home)
		}
		add(words.RoomThere, m.roomThere(now))
		if m.KiB == 0 {
			add(words.NoMemory, m.Before, m.After)
		} else {
			add(words.MemoryMoves, m.KiB, m.Before, m.After)
		}
		now.add(&m.To)
	}
}

// successors is who comes to the nodes that a move leaves.
func (m *Move) successors(later []Move, left topology.NodeSet, w *want, home topology.NodeSet) []words.Reason {
	var out []words.Reason
	for k := range later {
		if later[k].To.Home.Intersects(left) && later[k].Workload != m.Workload {
			out = append(out, words.Plain(string(later[k].Workload)))
		}
	}
	if w != nil && home.Intersects(left) {
		out = append(out, words.Because(words.Newcomer, w.ID, w.size()))
	}
	return out
}

// roomThere is what is free on the nodes a move goes to.
func (m *Move) roomThere(l *Ledger) []words.Reason {
	var out []words.Reason
	for id := range m.To.Home.All() {
		n := &l.nodes[l.index(id)]
		out = append(out, words.Because(words.NodeHas, id, n.Free, max(0, n.freeOf(m.To.HugePage))))
	}
	return out
}

func (out *Restoring) explain(l *Ledger) {
	add := func(code words.Code, args ...any) { out.Reasons = append(out.Reasons, words.Because(code, args...)) }
	explainMoves(l, out.Moves, nil, topology.NodeSet{})
	switch {
	case len(out.Remote) == 0:
		add(words.AllNear)
	case len(out.Moves) == 0:
		add(words.NoneNearer, len(out.Remote))
	default:
		add(words.MovesSave, len(out.Moves), out.KiB, out.Gain, out.Most)
	}
	if out.CutOff {
		add(words.NearerCut, out.Steps)
	}
}
