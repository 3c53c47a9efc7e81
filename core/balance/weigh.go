package balance

import (
	"fmt"
)

const (
	// moveSlowdown is the part of its time that work loses while its pages move: each
	// page is unmapped, copied and faulted in again, and all CPUs take part in
	// draining their page lists (docs/moving.md).
	moveSlowdown = 0.1

	// moveFixed is the thread time that any change costs: cold caches, settings
	// written, a reader of numa_maps.
	moveFixed = 1 * second

	// copyRate is what one CPU copies, KiB/s: the mover's own time.
	copyRate = 1 << 20
)

// weigh fills in what an option gains and costs. While memory moves, the change
// is worth the mean of its beginning (CPUs there, memory not) and its end.
func (d *decider) weigh(o *option) {
	m, s := d.m, &d.in.Settings
	for i := range o.changes {
		o.kib += o.changes[i].kib
	}
	if pace := float64(d.in.Arrange.MoveBandwidth) / 1024; pace > 0 {
		o.seconds = o.kib / pace
	}
	before := d.lost
	for i := range o.changes {
		c := &o.changes[i]
		m.shift(c.w, c.w.run, c.w.mem, c.run, c.w.mem)
	}
	start := m.lost()
	for i := range o.changes {
		c := &o.changes[i]
		m.shift(c.w, c.run, c.w.mem, c.run, c.mem)
	}
	after := m.lost()
	for i := range o.changes {
		for _, p := range o.changes[i].mem {
			low := lowFree * float64(m.host.Nodes[p.node].Memory)
			if had := d.free[p.node]; o.rejected == "" && had >= 0 && m.free[p.node] < low && m.free[p.node] < had {
				o.rejected = fmt.Sprintf("Node %d would have %s free of %s.", m.rooms[p.node].Node, size(max(0, m.free[p.node])), size(float64(m.host.Nodes[p.node].Memory)))
			}
		}
	}
	for i := range o.changes {
		c := &o.changes[i]
		o.cost += c.w.weight * (moveFixed + moveSlowdown*c.w.demand*second*o.moving(c))
	}
	d.restore() // and not by adding again: rounding would depend on how much was tried
	o.cost += o.kib / copyRate * second
	o.saves = before - after
	horizon := s.Horizon.Seconds()
	moving := min(o.seconds, horizon)
	o.gain = o.saves*(horizon-moving) + (before-(start+after)/2)*moving
}

// moving is the seconds in which the memory of one change moves.
func (o *option) moving(c *shift) float64 {
	if o.kib == 0 {
		return 0
	}
	return o.seconds * c.kib / o.kib
}
