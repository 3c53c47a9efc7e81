package place

import (
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// explain says what was found, how good it is, and why each move is made.
func (r *repack) explain(out *Repacking) {
	if r.best != nil {
		verdict := fmt.Sprintf("%s of %s in all %s it.", count(len(out.Moves), "move"), size(out.KiB), verb(len(out.Moves), "admits", "admit"))
		switch {
		case out.AtLeast >= len(out.Moves):
			verdict += " No plan has fewer moves."
		case out.AtLeast == 0:
			verdict += " Of fewer moves nothing is proven."
		case out.Whole:
			verdict += fmt.Sprintf(" Any plan has at least %d; all that keep what moves on one node each were tried and none has fewer.", out.AtLeast)
		default:
			verdict += fmt.Sprintf(" Any plan has at least %d.", out.AtLeast)
		}
		out.Reasons = append(out.Reasons, verdict)
	} else if len(out.Reasons) == 0 {
		verdict := fmt.Sprintf("No plan of up to %s was found that admits it", count(r.opt.Moves, "move"))
		if out.Whole {
			verdict += "; all that keep what moves on one node each were tried"
		}
		out.Reasons = append(out.Reasons, verdict+".")
		if n := r.pinned(); n > 0 {
			out.Reasons = append(out.Reasons, fmt.Sprintf("%s may not move.", count(n, "running workload")))
		}
	}
	if out.CutOff {
		out.Reasons = append(out.Reasons, fmt.Sprintf("The search was cut off after %d steps; a better plan may exist.", out.Steps))
	}
	to := func(id workload.ID) topology.NodeSet { return out.Result.Placement.Home }
	r.start.explainMoves(out.Moves, &r.want, to)
}

// pinned is how many workloads on the host may not move.
func (r *repack) pinned() int {
	n := 0
	for i := range r.start.held {
		if h := r.start.held[i]; h.Class != workload.Offline {
			n++
		}
	}
	return n - len(r.movers)
}

// explainMoves gives each move its reasons: for whom it makes room, what is free
// where it goes, and what it costs. w is the workload to admit, nil for none.
func (l *Ledger) explainMoves(moves []Move, w *want, to func(workload.ID) topology.NodeSet) {
	now := l.clone()
	for i := range moves {
		m := &moves[i]
		now.Remove(m.Workload)
		room := now.roomWords(m)
		left := m.From.Home.Minus(m.To.Home)
		var reasons []string
		switch {
		case m.Temporary:
			reasons = append(reasons, fmt.Sprintf("It steps aside for a while: others wait for its place on %s, and it for theirs.", nodesWords(m.From.Home)))
		case len(m.heirs(moves[i+1:], left, w, to)) > 0:
			reasons = append(reasons, fmt.Sprintf("It makes room on %s for %s.", nodesWords(left), list(m.heirs(moves[i+1:], left, w, to))))
		case left.Empty() && m.From.Home.Equal(m.To.Home):
			reasons = append(reasons, fmt.Sprintf("It takes other CPUs of %s, so that whole cores come free.", nodesWords(m.To.Home)))
		case m.After < m.Before-tiny:
			reasons = append(reasons, "It comes nearer to its memory.")
		default:
			reasons = append(reasons, fmt.Sprintf("It returns to %s.", nodesWords(m.To.Home)))
		}
		reasons = append(reasons, room)
		switch {
		case m.KiB == 0:
			reasons = append(reasons, fmt.Sprintf("No memory changes node; an access costs %.2f times a local one before and %.2f after.", m.Before, m.After))
		default:
			reasons = append(reasons, fmt.Sprintf("%s of its memory %s node; an access costs %.2f times a local one before and %.2f after.",
				size(m.KiB), "changes", m.Before, m.After))
		}
		m.Reasons = reasons
		now.add(&m.To)
	}
}

// heirs names who comes to the nodes that a move leaves.
func (m *Move) heirs(later []Move, left topology.NodeSet, w *want, to func(workload.ID) topology.NodeSet) []string {
	var out []string
	for k := range later {
		if later[k].To.Home.Intersects(left) && later[k].Workload != m.Workload {
			out = append(out, string(later[k].Workload))
		}
	}
	if w != nil && to(w.ID).Intersects(left) {
		out = append(out, fmt.Sprintf("%s (%s)", w.ID, w.words()))
	}
	return out
}

// roomWords is what is free on the nodes a move goes to.
func (l *Ledger) roomWords(m *Move) string {
	var words []string
	for id := range m.To.Home.All() {
		n := &l.nodes[l.index(id)]
		free := n.memoryFree
		if m.To.HugePage > 0 {
			free = 0
			if p := n.pool(m.To.HugePage); p != nil {
				free = p.free
			}
		}
		words = append(words, fmt.Sprintf("node %d has %s and %s free", id, count(n.free, "CPU"), size(max(0, free))))
	}
	return strings.ToUpper(words[0][:1]) + list(words)[1:] + " without it."
}

func (l *Ledger) explainRestoring(out *Restoring) {
	l.explainMoves(out.Moves, nil, func(workload.ID) topology.NodeSet { return topology.NodeSet{} })
	switch {
	case len(out.Remote) == 0:
		out.Reasons = append(out.Reasons, "Every workload that runs is as near to its memory as this host allows.")
	case len(out.Moves) == 0:
		out.Reasons = append(out.Reasons, fmt.Sprintf("%s farther from %s memory than need be, and no moves were found that change it.",
			count(len(out.Remote), "workload")+verb(len(out.Remote), " is", " are"), verb(len(out.Remote), "its", "their")))
	default:
		out.Reasons = append(out.Reasons, fmt.Sprintf("%s of %s in all %s %.2f vCPUs' worth of remote accesses; no plan gains more than %.2f.",
			count(len(out.Moves), "move"), size(out.KiB), verb(len(out.Moves), "saves", "save"), out.Gain, out.Most))
	}
	if out.CutOff {
		out.Reasons = append(out.Reasons, fmt.Sprintf("The search was cut off after %d steps; better moves may exist.", out.Steps))
	}
}
