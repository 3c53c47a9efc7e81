package balance

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// mostTried is how many options that pay are tried on the ledger, mostWeighed how
	// many a report shows.
	mostTried   = 32
	mostWeighed = 8

	// leastLooks is how many looks a window has at least, however long the period.
	leastLooks = 3
)

// decider is one decision.
type decider struct {
	in       *Input
	memory   *History
	looks    []Sample
	ledger   *place.Ledger
	m        *model
	one      []topology.NodeSet // each node alone, by index
	settling []bool             // by node: it changed within the window
	pairs    map[pair]workload.ID
	queue    float64 // seconds until the page moves under way have ended
	lost     float64
	saved    []float64 // the model's sums as homes are
	far      float64
	free     []float64
	crowded  []float64 // seconds for which each node that is in trouble for its CPUs alone was crowded, 0 for others
	lostOn   []float64 // of lost, by node
	touched  []bool    // by node: the option being weighed changes something there
	homes    []onHome  // work with a home of one node, by index
	scratch
}

// scratch is memory that one decision after the other uses, for options come by the thousand. No report
// refers to it.
type scratch struct {
	options, swapped []option
	shifts           []shift
}

// keep returns a copy of the changes of an option.
func (x *scratch) keep(changes []shift) []shift {
	n := len(x.shifts)
	if cap(x.shifts)-n < len(changes) {
		n = 0
		x.shifts = make([]shift, 0, max(64, 2*cap(x.shifts)))
	}
	x.shifts = append(x.shifts, changes...)
	return x.shifts[n:len(x.shifts):len(x.shifts)]
}

// room returns room for n options, in a list of before where that is large enough.
func room(before []option, n int) []option {
	if cap(before) < n {
		return make([]option, 0, n+n/4)
	}
	return before[:0]
}

// decide is what to change on homes that hold, and why. placements rise by
// workload.
func (e *Engine) decide(in *Input, placements []plan.Placement, memory *History) (Report, []plan.Placement) {
	if why := unready(in, memory); !why.Quiet.None() {
		return why, nil
	}
	st := in.State
	st.Placements = placements
	d := &decider{in: in, memory: memory, looks: memory.Samples, scratch: e.scratch}
	d.shifts = d.shifts[:0]
	defer func() { e.scratch = d.scratch }()
	rooms := st // what the model asks of a ledger: who has CPUs of his own and, to be near to it, where others are
	if !e.known.anyNear(in.Subjects) {
		rooms.Placements = dedicated(placements)
	}
	d.m = e.known.model(in, placements, place.NewLedger(rooms), d.looks)
	d.prepare()
	t := d.m.find(d.looks, d.settling)
	r := Report{Lost: round3(d.lost / second), Nodes: d.m.report(), Triggers: t.triggers}
	if len(t.triggers) == 0 {
		r.State, r.Quiet = InOrder, d.m.inOrder()
		return r, nil
	}
	d.ledger = place.NewLedger(st)
	d.addForeign(placements)
	d.crowded = make([]float64, len(d.m.rooms))
	for i := range d.crowded {
		if t.cpu[i] && !t.traffic[i] && !t.short[i] {
			d.crowded[i] = d.m.crowdedFor(i)
		}
	}
	options := d.singles(t)
	d.keepRoom(t, options)
	chosen, homes := d.choose(options)
	if chosen == nil &&
		slices.ContainsFunc(t.triggers,
			func(t Trigger) bool { return t.Kind != LowLocality && t.Kind != FarFromPartner }) {
		options = append(options, d.swaps(t)...)
		d.options = options
		chosen, homes = d.choose(options)
	}
	d.report(&r, options, chosen)
	return r, homes
}

// addForeign counts in the ledger what those without a home use.
func (d *decider) addForeign(placements []plan.Placement) {
	k := 0
	for i := range d.in.Subjects {
		o := &d.in.Subjects[i].Observation
		for k < len(placements) && placements[k].Workload < o.ID {
			k++
		}
		// subjects need not rise
		if (k == len(placements) || placements[k].Workload != o.ID) && !hasHome(placements, o.ID) {
			d.ledger.AddForeign(o)
		}
	}
}

// dedicated is those that have CPUs of their own.
func dedicated(placements []plan.Placement) []plan.Placement {
	var out []plan.Placement
	for i := range placements {
		if placements[i].Class == workload.Dedicated {
			out = append(out, placements[i])
		}
	}
	return out
}

func hasHome(placements []plan.Placement, id workload.ID) bool {
	_, ok := slices.BinarySearchFunc(placements, id,
		func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
	return ok
}

// unready is why nothing can be said yet.
func unready(in *Input, memory *History) Report {
	n := len(memory.Samples)
	switch {
	case !in.Settings.Enabled:
		return Report{State: Off, Quiet: words.Because(words.BalanceOff)}
	case len(in.State.Host.Nodes) < 2:
		return Report{State: InOrder, Quiet: words.Because(words.SingleNode)}
	case n < leastLooks || in.At.Sub(memory.Samples[0].At) < in.Settings.Window:
		return Report{State: Learning, Quiet: words.Because(words.BalanceLearning, in.Settings.Window, n)}
	}
	return Report{}
}

func (d *decider) prepare() {
	m := d.m
	n := len(m.rooms)
	d.lost = m.lost()
	d.lostOn = make([]float64, n)
	d.touched = make([]bool, n)
	d.homes = make([]onHome, n)
	for i := range n {
		d.lostOn[i] = m.lostOn(i)
	}
	d.saved, d.far = slices.Clone(m.sums), m.far
	d.free = slices.Clone(m.free)
	d.settling = make([]bool, n)
	d.one = make([]topology.NodeSet, n)
	for i := range n {
		id := m.rooms[i].Node
		d.one[i] = topology.Nodes(id)
		for k := range d.memory.Changes {
			p := &d.memory.Changes[k]
			if p.At.After(d.looks[0].At) && (p.From.Has(id) || p.To.Has(id)) {
				d.settling[i] = true
			}
		}
	}
	d.pairs = map[pair]workload.ID{}
	for i := range m.workloads {
		w := &m.workloads[i]
		if w.flight == nil || !w.flight.PutOff.None() {
			continue
		}
		if pace := float64(d.in.Arrange.MoveBandwidth) / 1024; pace > 0 {
			d.queue += max(0, w.kib-float64(workload.On(w.Observation.Memory, w.flight.To))) / pace
		}
		for _, x := range w.Observation.Memory {
			for to := range w.flight.To.All() {
				if x.KiB > 0 && !w.flight.To.Has(x.Node) {
					if _, taken := d.pairs[pairOf(x.Node, to)]; !taken {
						d.pairs[pairOf(x.Node, to)] = w.id
					}
				}
			}
		}
	}
}

// restore puts the model back to how homes are.
func (d *decider) restore() {
	copy(d.m.sums, d.saved)
	d.m.far = d.far
}

// leastSaved returns the least saving of an option that pays, and the code against a smaller one.
func (o *option) leastSaved() (least float64, little words.Code) {
	if len(o.changes) == 1 {
		return o.changes[0].w.leastLost()
	}
	return leastLost, words.SavesLittle
}

// tooPoor returns the code of pays. Of thousands of options that do not pay eight are shown with the numbers.
func (d *decider) tooPoor(o *option) words.Code {
	least, little := o.leastSaved()
	switch {
	case o.saves < least*second:
		return little
	case o.gain <= d.in.Settings.Factor*o.cost:
		return words.DoesNotPay
	}
	return ""
}

// pays is why an option does not pay, or "".
func (d *decider) pays(o *option) words.Reason {
	code := d.tooPoor(o)
	switch code {
	case "":
		return words.Reason{}
	case words.DoesNotPay:
		return words.Because(code, o.gain, o.horizon*second, o.cost, d.in.Settings.Factor)
	}
	least, _ := o.leastSaved()
	return words.Because(code, o.saves/second, least)
}

// whyRejected is why an option is rejected, with the numbers.
func (d *decider) whyRejected(o *option) words.Reason {
	if o.poor {
		return d.pays(o)
	}
	return o.rejected
}

// choose takes the best option that pays and that the ledger holds, and says of
// the others why not.
func (d *decider) choose(options []option) (*option, []plan.Placement) {
	var paying []*option
	for i := range options {
		o := &options[i]
		if o.rejected.None() {
			o.rejected.Code = d.tooPoor(o)
			o.poor = o.rejected.Code != ""
			if !o.poor {
				paying = append(paying, o)
			}
		}
	}
	slices.SortFunc(paying, d.better)
	var best *option
	var homes []plan.Placement
	for k, o := range paying {
		switch {
		case best != nil && o.tier > best.tier:
			o.rejected = words.Because(words.ImportantLast)
		case best != nil:
			o.rejected = words.Because(words.GainsLess)
		case k >= mostTried:
			o.rejected = words.Because(words.NotTried)
		default:
			if homes, o.rejected = d.fit(o); o.rejected.None() {
				best = o
			}
		}
	}
	return best, homes
}

// fit asks the ledger for the new homes.
func (d *decider) fit(o *option) ([]plan.Placement, words.Reason) {
	for i := range o.changes {
		d.ledger.Remove(o.changes[i].w.id)
	}
	var homes []plan.Placement
	var why words.Reason
	for i := range o.changes {
		c := &o.changes[i]
		old := c.w.placed
		spec := c.w.Spec
		spec.ID = c.w.id
		spec.CPUs = old.VCPUs
		spec.Memory = old.Asked
		spec.Nodes = c.to
		spec.MinNodes = c.to.Len()
		spec.MaxNodes = c.to.Len()
		// It is weighed by what others use, not by what they have booked.
		r := d.ledger.Place(place.Request{Spec: spec, Memory: c.w.Observation.Memory, Must: true, Crowd: true})
		if !r.Placed() || !r.Placement.Home.Equal(c.to) {
			why = words.Because(words.NoRoomBooked, c.to)
			break
		}
		p := r.Placement
		p.Start, p.Bound = old.Start, old.Bound
		d.ledger.Commit(p)
		homes = append(homes, p)
	}
	if why.None() {
		return homes, why
	}
	for i := range o.changes {
		d.ledger.Remove(o.changes[i].w.id)
	}
	for i := range o.changes {
		d.ledger.Commit(*o.changes[i].w.placed)
	}
	return nil, why
}

// report writes the report on options that were weighed.
func (d *decider) report(r *Report, options []option, chosen *option) {
	if chosen != nil {
		r.Chosen = new(d.candidate(chosen))
		r.State = Moves
		if !d.in.Settings.Act {
			r.State = Would
		}
	}
	best, weighed := d.bestSaving(options, chosen)
	for _, o := range best {
		r.Weighed = append(r.Weighed, d.candidate(o))
	}
	if chosen != nil {
		return
	}
	r.State = NoChoice
	if weighed == 0 {
		r.Quiet = words.Because(words.NothingHelps, r.Triggers[0].Reason, len(options))
		return
	}
	first := &r.Weighed[0]
	r.Quiet = words.Because(words.BestRejected, r.Triggers[0].Reason, len(options), first.What(), first.Rejected)
}

// bestSaving returns the options, but for the chosen one, that save something: the
// mostWeighed best of them, best first, and how many there are.
func (d *decider) bestSaving(options []option, chosen *option) (best []*option, n int) {
	before := func(x, y *option) int {
		return cmp.Or(cmp.Compare(d.net(y), d.net(x)), d.better(x, y))
	}
	for i := range options {
		o := &options[i]
		if o == chosen || o.saves <= 0 {
			continue
		}
		n++
		full := len(best) == mostWeighed
		if full && d.net(o) < d.net(best[mostWeighed-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, o, before)
		best = slices.Insert(best, at, o)
		best = best[:min(len(best), mostWeighed)]
	}
	return best, n
}
