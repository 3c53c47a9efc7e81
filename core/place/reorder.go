package place

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// order puts the seated movers in an order in which each finds its room free. Where
// they wait for each other in a circle one of them, or one that is not concerned,
// steps aside for a while; that is one more move, or two. It returns the moves and
// the ledger they lead to.
func (r *repack) order() ([]Move, *Ledger, bool) {
	o := ordering{r: r, l: r.start.clone(), to: make([]*seat, len(r.movers)), at: make([]bool, len(r.movers))}
	away := 0
	for i := len(r.seated) - 1; i >= 0; i-- { // the end of a chain of evictions goes first
		if s := &r.seated[i]; s.who >= 0 {
			o.to[s.who] = s
			o.who = append(o.who, s.who)
			away++
		}
	}
	if !o.next(r.level, away) {
		return nil, nil, false
	}
	return o.moves, o.l, true
}

// ordering is one search for an order.
type ordering struct {
	r     *repack
	l     *Ledger
	who   []int   // the seated, in the order to try
	to    []*seat // by mover: where it goes; nil for one that stays
	at    []bool  // by mover: it has come there
	aside []int   // movers that stay in the end and stand aside now
	moves []Move
	was   []*holding // by move: what moved, before
}

// next makes the next of at most left moves; away is how many movers are not yet
// where they belong.
func (o *ordering) next(left, away int) bool {
	if away == 0 {
		return true
	}
	if away > left || !o.r.step() {
		return false
	}
	for _, j := range o.who {
		if !o.at[j] && o.move(j, o.to[j].shares, &o.to[j].p, false) {
			o.at[j] = true
			if o.next(left-1, away-1) {
				return true
			}
			o.at[j] = false
			o.undo()
		}
	}
	for k, j := range o.aside {
		if o.goBack(j) {
			o.aside = slices.Delete(o.aside, k, k+1)
			if o.next(left-1, away-1) {
				return true
			}
			o.aside = slices.Insert(o.aside, k, j)
			o.undo()
		}
	}
	if away >= left {
		return false
	}
	for _, j := range o.who {
		if !o.at[j] && o.stepAside(j, left-1, away) {
			return true
		}
	}
	if away+2 > left {
		return false
	}
	for j := range o.r.movers {
		if o.to[j] != nil || slices.Contains(o.aside, j) {
			continue
		}
		o.aside = append(o.aside, j)
		if o.stepAside(j, left-1, away+1) {
			return true
		}
		o.aside = o.aside[:len(o.aside)-1]
	}
	return false
}

// stepAside tries the nodes where mover j may stand for a while.
func (o *ordering) stepAside(j, left, away int) bool {
	w := &o.r.movers[j].want
	k, _ := o.l.find(w.ID)
	home := o.l.held[k].home
	for i := range o.l.nodes {
		if (len(home) == 1 && home[0] == i) || !o.r.step() {
			continue
		}
		if o.move(j, []share{{i, float64(w.vcpus), w.memory}}, nil, true) {
			if o.next(left, away) {
				return true
			}
			o.undo()
		}
	}
	return false
}

// move takes mover j to its nodes, if they have room: to the very CPUs of the plan
// where these are free, so that whole cores come free as planned.
func (o *ordering) move(j int, shares []share, planned *plan.Placement, temporary bool) bool {
	m := &o.r.movers[j]
	k, _ := o.l.find(m.held.Workload)
	from := o.l.held[k]
	seen := o.l.placement(from)
	o.l.Remove(m.held.Workload)
	o.l.guardBatch()
	if slices.ContainsFunc(shares, func(s share) bool { return !m.want.fits(o.l, s) }) {
		o.l.putBack(from)
		return false
	}
	p := m.want.realize(o.l, &candidate{shares: shares})
	if planned != nil && p.Class == workload.Dedicated && o.free(planned.CPUs.Union(planned.Idle)) {
		p.Pins = planned.Pins
		p.CPUs = planned.CPUs
		p.Idle = planned.Idle
		p.Caches = planned.Caches
	}
	if _, starved := o.l.starves(&p); starved || sameSeat(from.Placement, &p) {
		o.l.putBack(from)
		return false
	}
	p.Start, p.Within = from.Start, from.Within
	p.Bound = p.Bound && from.Bound
	o.l.add(&p)
	o.record(seen, from, m, temporary)
	return true
}

// free reports whether no dedicated work holds any of the CPUs.
func (o *ordering) free(cpus topology.CPUSet) bool {
	for cpu := range cpus.All() {
		if o.l.cpus.Taken(cpu) {
			return false
		}
	}
	return true
}

// goBack returns mover j, which stood aside, to where it was.
func (o *ordering) goBack(j int) bool {
	m := &o.r.movers[j]
	return o.move(j, o.r.start.sharesOf(m.held), m.held.Placement, false)
}

// record keeps a move that was made; from is the placement before and was the holding.
func (o *ordering) record(from plan.Placement, was *holding, m *mover, temporary bool) {
	k, _ := o.l.find(m.held.Workload)
	to := o.l.held[k]
	o.was = append(o.was, was)
	o.moves = append(o.moves, Move{
		Workload: m.held.Workload, From: from, To: o.l.placement(to), KiB: movedKiB(from.Memory, to.Placement.Memory),
		Temporary: temporary,
		Before:    o.l.accessNow(was), After: o.l.accessNow(to),
	})
}

// undo takes back the last move.
func (o *ordering) undo() {
	n := len(o.moves) - 1
	o.l.Remove(o.moves[n].Workload)
	o.l.putBack(o.was[n])
	o.moves, o.was = o.moves[:n], o.was[:n]
}
