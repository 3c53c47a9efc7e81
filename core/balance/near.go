package balance

import (
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// nearFill is how much of a node's cores may be wanted when something comes there
// only to be near a device or a helper. Poll threads are busy all the time and guests
// that talk to one all want to be where it is; below this line there is room for
// what they do next, above it the next burst would send them away again.
const nearFill = 0.75

// tellParted finds work that loses much by being far from the devices and helpers it
// is near to. What that costs is bounded where the pull is made (core/place,
// nearCeiling and learnedCeiling), and never goes by how busy a helper is.
func (m *model) tellParted(t *trouble, w *work) {
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
	if least < 0 || lost < leastLost {
		return
	}
	t.parted = append(t.parted, w)
	t.triggers = append(t.triggers, Trigger{Kind: FarFromPartner, Node: topology.None, Workload: w.id, Text: fmt.Sprintf(
		"%s: being far from %s costs it %.2f CPUs.", w.id, nearWords(w.Spec.Near), lost)})
}

// nearWords names what something is near to.
func nearWords(near []workload.Near) string {
	text := ""
	for _, n := range near {
		if text != "" {
			text += " and "
		}
		switch {
		case n.Device != "":
			text += n.Device
		case n.Workload != "":
			text += string(n.Workload)
		default:
			text += "node " + n.Nodes.String()
		}
	}
	return text
}

// keepRoom forbids changes that are about nearness alone and would fill a node.
func (d *decider) keepRoom(t *trouble, options []option) {
	for i := range options {
		o := &options[i]
		c := &o.changes[0]
		if o.rejected != "" || !slices.Contains(t.parted, c.w) || slices.Contains(t.far, c.w) || d.inTrouble(t, c.w) {
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
				o.rejected = fmt.Sprintf("Node %d would have %.1f of %.4g cores wanted; to be near something, nothing goes where more than %.0f %% are.",
					r.Node, want, r.Cores, 100*nearFill)
			}
		}
	}
}

// inTrouble reports whether w runs or lies on a node that something is wrong with.
func (d *decider) inTrouble(t *trouble, w *work) bool {
	hot := func(p part) bool { return t.hot(p.node) }
	return slices.ContainsFunc(w.run, hot) || slices.ContainsFunc(w.mem, hot)
}
