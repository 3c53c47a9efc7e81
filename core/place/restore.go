package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Remote is a workload whose accesses cost more than they would have to.
type Remote struct {
	Workload workload.ID
	Access   float64 // mean access cost now, local being 1
	Restored float64 // the same after the moves
	Least    float64 // no place on this host can be nearer
	Stay     string  // why it must not move; "" when it may
}

// Restoring is which moves bring workloads nearer to their memory.
type Restoring struct {
	Remote  []Remote     // the farthest first, by vCPUs times access cost
	Moves   []Move       // in the order to make; every state on the way passes plan.Check
	KiB     topology.KiB // sum of the moves
	Gain    float64      // in the unit of scores: vCPUs times local accesses
	Most    float64      // no plan gains more from distance; proven
	CutOff  bool         // the steps ran out
	Steps   int
	Worse   []Worsening
	Reasons []words.Reason
}

// Restore finds moves that bring running workloads nearer to their memory, the
// move that gains most for each workload moved first. It goes on while something
// is gained and moves are left. The ledger is left as it is.
func (l *Ledger) Restore(opt RepackOptions) Restoring {
	r := newRepack(l, Request{}, opt)
	opt = r.opt
	out := Restoring{}
	now := l.clone()
	stay := map[workload.ID]bool{}
	for _, x := range remotes(l, opt.Running) {
		out.Remote = append(out.Remote, x)
		if k, _ := l.find(x.Workload); x.Stay == "" {
			out.Most += float64(l.held[k].VCPUs) * (x.Access - x.Least)
		} else {
			stay[x.Workload] = true
		}
	}
	left, steps := opt.Moves, opt.Steps
	for left > 0 && steps > 0 {
		best := (*solution)(nil)
		far := remotes(now, opt.Running)
		for i, x := range far {
			if stay[x.Workload] {
				continue
			}
			s, used, cut := bringHome(now, x, opt, left, steps/(len(far)-i))
			steps -= used
			out.CutOff = out.CutOff || cut
			if s != nil && (best == nil || s.score*float64(len(best.moves)) < best.score*float64(len(s.moves))-tiny) {
				best = s
			}
		}
		if best == nil {
			break
		}
		for i := range best.moves {
			now.Remove(best.moves[i].Workload)
			now.add(&best.moves[i].To)
		}
		out.Moves = append(out.Moves, best.moves...)
		out.KiB += best.kib
		out.Gain -= best.score
		left -= len(best.moves)
	}
	out.Steps = opt.Steps - steps
	for i := range out.Remote {
		k, _ := now.find(out.Remote[i].Workload)
		out.Remote[i].Restored = now.accessNow(now.held[k])
	}
	out.Worse = worsened(l, now, opt.Running)
	out.explain(l)
	return out
}

// remotes is the workloads that are not as near to their memory as they could be.
func remotes(l *Ledger, running []Runner) []Remote {
	var out []Remote
	loss := map[workload.ID]float64{}
	for i := range running {
		k, ok := l.find(running[i].Spec.ID)
		if !ok || l.held[k].Class == workload.Batch || loss[running[i].Spec.ID] > 0 {
			continue
		}
		m := newMover(l, &running[i].Spec, l.held[k])
		x := Remote{Workload: m.held.Workload, Access: m.access, Least: m.want.leastAccess(l), Stay: running[i].Stay}
		if x.Access > x.Least+tiny {
			loss[x.Workload] = float64(m.held.VCPUs) * (x.Access - x.Least)
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Remote) int {
		return cmp.Or(-cmp.Compare(loss[a.Workload], loss[b.Workload]), cmp.Compare(a.Workload, b.Workload))
	})
	return out
}

// bringHome finds the plan of fewest moves, and then of most gain, that brings one
// workload nearer. The score of the solution is less than 0 by what it gains.
func bringHome(l *Ledger, x Remote, opt RepackOptions, moves, steps int) (*solution, int, bool) {
	opt.Moves = moves
	opt.Steps = max(1, steps)
	opt.Access = x.Access - 0.005
	r := newRepack(l, Request{}, opt)
	r.self = slices.IndexFunc(r.movers, func(m mover) bool { return m.held.Workload == x.Workload })
	if r.self < 0 {
		return nil, 0, false
	}
	m := &r.movers[r.self]
	r.want = m.want
	r.accepts = func(s *solution) bool { return s.score < -tiny }
	r.l.Remove(x.Workload)
	m.out = true
	destinations := r.destinations(&m.want)
	out := Repacking{AtLeast: 1}
	r.deepen(&out, func() {
		for _, shares := range destinations {
			r.seat(r.self, shares, r.level-1, -1, nil)
		}
	})
	return r.best, opt.Steps - r.left, out.CutOff
}

// after is the ledger that the moves, and the placement of the new workload, lead to.
func (r *repack) after(moves []Move, p *plan.Placement) *Ledger {
	l := r.start.clone()
	for i := range moves {
		l.Remove(moves[i].Workload)
		l.add(&moves[i].To)
	}
	if p != nil {
		l.Remove(p.Workload)
		l.add(p)
	}
	return l
}
