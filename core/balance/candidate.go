package balance

import (
	"cmp"
	"slices"
	"time"

	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// option is a candidate in the model's terms: new homes of one or two workloads.
type option struct {
	kind     Kind
	changes  []shift
	gain     float64 // ns, see weigh
	cost     float64
	saves    float64 // ns/s
	kib      float64
	seconds  float64
	horizon  float64      // seconds
	tier     int          // importance of the most important above the default, 0 below
	rejected words.Reason // the rule or the figures that forbid it
	poor     bool         // it does not pay: rejected has the code alone, see whyRejected
}

// shift is a workload with a new home.
type shift struct {
	w        *work
	to       topology.NodeSet
	run, mem []part
	kib      float64
}

// net is the gain above what an option must gain to be done at all.
func (d *decider) net(o *option) float64 { return o.gain - d.in.Settings.Factor*o.cost }

// better orders options: the less important moves first, then the larger net gain,
// then fewer bytes, then by name. Names are compared last, for thousands of options are.
func (d *decider) better(x, y *option) int {
	if x.tier != y.tier {
		return cmp.Compare(x.tier, y.tier)
	}
	if c := cmp.Compare(d.net(y), d.net(x)); c != 0 {
		return c
	}
	if c := cmp.Compare(x.kib, y.kib); c != 0 {
		return c
	}
	return byName(x, y)
}

// byName orders options by the workloads and the nodes that they name.
func byName(x, y *option) int {
	a, b := &x.changes[0], &y.changes[0]
	return cmp.Or(
		cmp.Compare(a.w.id, b.w.id),
		cmp.Compare(a.to.Min(), b.to.Min()),
		cmp.Compare(len(x.changes), len(y.changes)),
		cmp.Compare(x.changes[len(x.changes)-1].w.id, y.changes[len(y.changes)-1].w.id),
	)
}

// singles is every change of one home that could help against the trouble.
func (d *decider) singles(t *trouble) []option {
	all := d.concerned(t)
	out := room(d.options, len(all)*len(d.m.rooms))
	for _, w := range all {
		if w.placed == nil || w.placed.Class == workload.Batch {
			continue
		}
		if w.flight != nil && !w.flight.PutOff.None() && slices.Contains(t.far, w) {
			o := d.option(MemoryToCPUs, d.shiftTo(w, w.placed.Home))
			o.rejected = words.Because(words.PutOff, w.flight.PutOff)
			out = append(out, o)
		}
		for i := range d.m.rooms {
			if d.takes(i) && !w.placed.Home.Equal(d.one[i]) {
				kind := Move
				if w.placed.Home.Has(d.m.rooms[i].Node) {
					kind = Narrow
				}
				out = append(out, d.option(kind, d.shiftTo(w, d.one[i])))
			}
		}
		if w.demand > d.m.cpusOf(w.placed.Home) && demand.Waited(&w.Observation) > 0 {
			out = append(out, d.wider(w)...)
		}
	}
	d.options = out
	return out
}

// wider is every home with one node more for a workload that wants more CPUs than its home has, and
// was measured to wait for them. None is made while another node has as many idle.
func (d *decider) wider(w *work) []option {
	var out []option
	whole := d.holdsWhole(w)
	for i := range d.m.rooms {
		if d.takes(i) && !w.placed.Home.Has(d.m.rooms[i].Node) {
			o := d.option(Widen, d.shiftTo(w, w.placed.Home.Union(d.one[i])))
			if o.rejected.None() && whole >= 0 {
				o.rejected = words.Because(words.FitsWhole, w.demand, d.m.rooms[whole].Node, d.m.idle(whole))
			}
			out = append(out, o)
		}
	}
	return out
}

// holdsWhole is the node beside its home with most of the CPUs idle, where that are as many as a
// workload wants and its memory has room; -1 for none.
func (d *decider) holdsWhole(w *work) int {
	best := -1
	for i := range d.m.rooms {
		n := &d.m.host.Nodes[i]
		low := lowFree * float64(n.Memory)
		switch {
		case !d.takes(i) || w.placed.Home.Has(n.ID) || (!w.Spec.Nodes.Empty() && !w.Spec.Nodes.Has(n.ID)):
		case d.m.idle(i) < w.demand+w.kept || (d.m.free[i] >= 0 && d.m.free[i]-w.kib < low):
		case best < 0 || d.m.idle(i) > d.m.idle(best):
			best = i
		}
	}
	return best
}

// takes reports whether shared work can live on node i at all.
func (d *decider) takes(i int) bool {
	n := &d.m.host.Nodes[i]
	return d.m.rooms[i].CPUs > 0 && n.Memory != 0 && d.m.host.AllowedMems.Has(n.ID)
}

// concerned is the work that runs or lies on a node in trouble, and what is far
// from its memory, in the order of workloads.
func (d *decider) concerned(t *trouble) []*work {
	var out []*work
	for i := range d.m.workloads {
		w := &d.m.workloads[i]
		here := slices.Contains(t.far, w) || slices.Contains(t.farFromPartner, w)
		for _, p := range w.run {
			here = here || t.cpu[p.node]
		}
		for _, p := range w.mem {
			here = here || t.traffic[p.node] || t.short[p.node]
		}
		if here {
			out = append(out, w)
		}
	}
	return out
}

// mostSwapped is how many workloads of each node are tried in swaps: those that
// weigh most there. It bounds the pairs on a node to 256.
const mostSwapped = 16

// swaps returns pairs of workloads that could change places.
func (d *decider) swaps(t *trouble) []option {
	tops := d.heaviest(t)
	var pairs [][2]int
	n := 0
	for i := range tops {
		for j := range tops {
			twice := t.hot(j) && j < i
			if i == j || twice || !t.hot(i) {
				continue
			}
			pairs = append(pairs, [2]int{i, j})
			n += len(tops[i]) * len(tops[j])
		}
	}
	out := room(d.swapped, n)
	for _, p := range pairs {
		i, j := p[0], p[1]
		for _, a := range tops[i] {
			for _, b := range tops[j] {
				out = append(out, d.option(Swap, d.shiftTo(a, d.one[j]), d.shiftTo(b, d.one[i])))
			}
		}
	}
	d.swapped = out
	return out
}

// heaviest returns, for each node, the shared workloads at home there that may move: those
// that weigh most.
func (d *decider) heaviest(t *trouble) [][]*work {
	tops := make([][]*work, len(d.m.rooms))
	for i := range d.m.workloads {
		w := &d.m.workloads[i]
		if !w.onOneNode() || !d.stays(w).None() {
			continue
		}
		if k := d.m.index(w.placed.Home.Min()); k >= 0 {
			tops[k] = append(tops[k], w)
		}
	}
	for i := range tops {
		slices.SortStableFunc(tops[i], func(x, y *work) int {
			if t.traffic[i] {
				return -cmp.Compare(x.traffic, y.traffic)
			}
			return -cmp.Compare(x.demand, y.demand)
		})
		tops[i] = tops[i][:min(len(tops[i]), mostSwapped)]
	}
	return tops
}

// onOneNode reports whether it is shared work with a home of one node.
func (w *work) onOneNode() bool {
	shared := w.placed != nil && w.placed.Class == workload.Shared
	return shared && w.placed.Home.Len() == 1
}

func (d *decider) shiftTo(w *work, to topology.NodeSet) shift {
	at := d.at(to)
	s := shift{w: w, to: to, run: at.run}
	s.mem = w.along(at.mem)
	for _, p := range w.mem {
		stays := 0.0
		for _, q := range s.mem {
			if q.node == p.node {
				stays = q.share
			}
		}
		s.kib += max(0, p.share-stays) * w.kib
	}
	return s
}

// onHome is where floating work with a home runs, and where its memory would lie.
type onHome struct{ run, mem []part }

func (d *decider) at(home topology.NodeSet) onHome {
	if home.Len() != 1 {
		return onHome{d.runOn(home), d.m.spread(home)}
	}
	i := d.m.index(home.Min())
	if i < 0 {
		return onHome{}
	}
	at := &d.homes[i] // thousands of options are about eight
	if at.mem == nil {
		*at = onHome{d.runOn(home), d.m.spread(home)}
	}
	return *at
}

// runOn is where floating work runs in a home: over its CPUs alike.
func (d *decider) runOn(home topology.NodeSet) []part {
	var out []part
	sum := 0
	for i := range d.m.rooms {
		if r := &d.m.rooms[i]; home.Has(r.Node) && r.CPUs > 0 {
			out = append(out, part{i, float64(r.CPUs)})
			sum += r.CPUs
		}
	}
	for k := range out {
		out[k].share /= float64(sum)
	}
	return out
}

func (d *decider) option(kind Kind, changes ...shift) option {
	o := option{kind: kind, changes: d.keep(changes)}
	for _, s := range o.changes {
		if s.w.Spec.Importance > workload.DefaultImportance {
			o.tier = max(o.tier, s.w.Spec.Importance)
		}
	}
	d.weigh(&o)
	for i := range o.changes {
		if o.rejected.None() {
			o.rejected = d.forbids(&o.changes[i])
		}
	}
	return o
}

// forbids returns why a rule forbids a change; none where no rule does.
func (d *decider) forbids(s *shift) words.Reason {
	w := s.w
	if why := d.stays(w); !why.None() {
		return why
	}
	spec := &w.Spec
	if !spec.Nodes.Empty() && !s.to.SubsetOf(spec.Nodes) {
		return words.Because(words.NodesOnly, spec.Nodes)
	}
	for _, r := range w.required {
		if !s.to.Intersects(r.At) {
			return words.Because(words.RequiredOn, r.At, r.Name)
		}
	}
	if o := &w.Observation; !o.Caps.Rebinds && !s.to.SubsetOf(o.Mems) && !o.Mems.Empty() {
		return words.Because(words.MemsOnly, o.Mems)
	}
	if spec.MaxNodes > 0 && s.to.Len() > spec.MaxNodes {
		return words.Because(words.MaxNodes, spec.MaxNodes)
	}
	if s.to.Len() < spec.MinNodes {
		return words.Because(words.MinNodes, spec.MinNodes)
	}
	for k := range d.memory.Changes {
		p := &d.memory.Changes[k]
		if age := d.in.At.Sub(p.At); p.Workload == w.id && age < d.in.Settings.Ban &&
			s.to.Minus(p.To).Intersects(p.From) {
			return words.Because(words.CameFrom, p.From, age, d.in.Settings.Ban-age)
		}
	}
	for i := range d.m.rooms {
		id := d.m.rooms[i].Node
		if d.settling[i] && (s.to.Has(id) || w.placed.Home.Has(id)) {
			return words.Because(words.Settling, id, d.in.Settings.Window)
		}
	}
	for _, p := range w.mem {
		for to := range s.to.All() {
			from := d.m.rooms[p.node].Node
			if who, busy := d.pairs[pairOf(from, to)]; busy && from != to && p.share > 0.01 {
				return words.Because(words.PairBusy, who, from, to)
			}
		}
	}
	return words.Reason{}
}

// stays is why a workload may not move at all now, or "".
func (d *decider) stays(w *work) words.Reason {
	switch {
	case w.placed == nil:
		return words.Because(words.NotPlaced)
	case w.Fixed && !w.Alone.None():
		return w.Alone
	case w.Fixed:
		return words.Because(words.MovesByOrder)
	case w.placed.Class == workload.Dedicated:
		return words.Because(words.DedicatedStays)
	case w.placed.Class == workload.Batch:
		return words.Because(words.BatchHomeless)
	case d.in.HeldAll || slices.Contains(d.in.Held, w.id):
		return words.Because(words.Held)
	case w.Observation.Pinned:
		return words.Because(words.OwnAffinities)
	case w.Observation.HasPolicy():
		return words.Because(words.OwnPolicy, w.Observation.OwnPolicy)
	case w.flight != nil && w.flight.PutOff.None():
		return words.Because(words.MovePending)
	case w.flight != nil && d.cameLately(w.id):
		return words.Because(words.MoveUnfinished, w.flight.PutOff)
	}
	if k := int(w.seen); k < len(d.looks) {
		return words.Because(words.SeenTooLittle, k, len(d.looks))
	}
	if until, moves := d.rests(w.id); until > 0 {
		return words.Because(words.Resting, moves, until)
	}
	return words.Reason{}
}

// rests is how long a workload must still rest: the cooldown doubles with each
// move within the hour, so that nothing moves more than six times in one, whatever
// the load does.
func (d *decider) rests(id workload.ID) (time.Duration, int) {
	moves, last := 0, time.Duration(0)
	for k := range d.memory.Changes {
		if p := &d.memory.Changes[k]; p.Workload == id {
			if age := d.in.At.Sub(p.At); age < time.Hour {
				moves++
				last = age
			}
		}
	}
	if moves == 0 {
		return 0, 0
	}
	rest := d.in.Settings.Cooldown << min(moves-1, 10)
	return rest - last, moves
}

// cameLately reports whether a workload changed its home within the ban.
func (d *decider) cameLately(id workload.ID) bool {
	return slices.ContainsFunc(d.memory.Changes,
		func(p HomeChange) bool { return p.Workload == id && d.in.At.Sub(p.At) < d.in.Settings.Ban })
}

// pair is two nodes between which memory moves, in either direction.
type pair [2]topology.NodeID

func pairOf(a, b topology.NodeID) pair { return pair{min(a, b), max(a, b)} }
