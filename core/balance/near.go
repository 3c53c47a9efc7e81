package balance

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// nearFill is how much of a node's cores may be wanted when something comes there
// only to be near a device or a helper. Poll threads are busy all the time and guests
// that talk to one all want to be where it is; below this line there is room for
// what they do next, above it the next burst would send them away again.
const nearFill = 0.75

// findFarFromPartner finds work that loses much by being far from the devices and helpers it
// is near to. What that costs is bounded where the pull is made (core/place,
// nearCeiling and learnedCeiling), and never goes by how busy a helper is.
func (m *model) findFarFromPartner(t *trouble, w *work) {
	if w.pull == nil || w.placed == nil || w.placed.Class != workload.Shared {
		return
	}
	now, least := 0.0, -1.0
	for _, p := range w.run {
		now += p.share * m.local[p.node] * w.pull[p.node]
	}
	for i := range m.rooms {
		if x := m.local[i] * w.pull[i]; m.rooms[i].CPUs > 0 && (least < 0 || x < least) {
			least = x
		}
	}
	lost := w.accesses * (now - least) / second
	w.follows = w.Spec.Serves()
	if enough, _ := w.leastLost(); least < 0 || lost < enough {
		return
	}
	t.farFromPartner = append(t.farFromPartner, w)
	t.triggers = append(t.triggers, Trigger{Kind: FarFromPartner, Node: topology.None, Workload: w.id,
		Reason: words.Because(
			words.FarFromPartner, w.id, nearNames(w.Spec.Near), lost)})
}

// leastServed is leastLost of a helper: what one that is busy a twentieth of the time loses at twice
// the local latency. Those that it works for wait meanwhile, which nothing shows.
const leastServed = 0.005

// leastLost is the thread time, in CPUs, that must be at stake for work to move, and why less
// is not enough.
func (w *work) leastLost() (float64, words.Code) {
	if w.follows {
		return leastServed, words.ServesLittle
	}
	return leastLost, words.SavesLittle
}

// nearNames names what something is near to.
func nearNames(near []workload.Near) []words.Reason {
	var out []words.Reason
	for _, n := range near {
		switch {
		case n.Device != "":
			out = append(out, words.Plain(n.Device))
		case n.Workload != "":
			out = append(out, words.Plain(string(n.Workload)))
		default:
			out = append(out, words.Because(words.OnNodes, n.Nodes))
		}
	}
	return out
}

// keepRoom forbids changes that are about nearness alone and would fill a node.
func (d *decider) keepRoom(t *trouble, options []option) {
	for i := range options {
		o := &options[i]
		c := &o.changes[0]
		if !o.rejected.None() || !slices.Contains(t.farFromPartner, c.w) || slices.Contains(t.far, c.w) ||
			d.inTrouble(t, c.w) {
			continue
		}
		for _, p := range c.run {
			r := &d.m.rooms[p.node]
			here := 0.0
			for _, q := range c.w.run {
				if q.node == p.node {
					here = q.share
				}
			}
			want := d.m.load[p.node] + d.m.kept[p.node] + (p.share-here)*(c.w.demand+c.w.kept)
			if p.share > here && want > nearFill*r.Cores {
				o.rejected = words.Because(words.AffinityLimit, r.Node, want, r.Cores, nearFill)
			}
		}
	}
}

// inTrouble reports whether w runs or lies on a node that something is wrong with.
func (d *decider) inTrouble(t *trouble, w *work) bool {
	hot := func(p part) bool { return t.hot(p.node) }
	return slices.ContainsFunc(w.run, hot) || slices.ContainsFunc(w.mem, hot)
}
