package balance

import (
	"math"

	"github.com/homenode/homenode/core/words"
)

const (
	// moveSlowdown is the part of its time that work loses while its pages move: each
	// page is unmapped, copied and faulted in again, and all CPUs take part in
	// draining their page lists (docs/design/moving.md).
	moveSlowdown = 0.1

	// moveFixed is the thread time that any change costs: cold caches, settings
	// written, a reader of numa_maps.
	moveFixed = 1 * second

	// copyRate is what one CPU copies, KiB/s: the mover's own time.
	copyRate = 1 << 20
)

// longest is the life of a load beyond which no more is expected of it, seconds.
const longest = 3600

// horizon is how much longer a load may be expected to last that has lasted for
// age, seconds. Of loads, as of processes, the part that outlives t falls with 1/t
// (Harchol-Balter and Downey, "Exploiting process lifetime distributions for
// dynamic load balancing", 1997); up to a longest life the mean of what is left is
// then age × ln(longest / age). What is new is given little, what has lasted more.
func horizon(age float64) float64 {
	if age <= 0 || age >= longest {
		return max(0, age)
	}
	return max(age, age*math.Log(longest/age))
}

// weigh fills in what an option gains and costs. Page moves share one pace: for as
// long as those under way take, the change is worth its beginning (CPUs there, memory
// not), and while its own memory moves the mean of beginning and end.
func (d *decider) weigh(o *option) {
	m, s := d.m, &d.in.Settings
	for i := range o.changes {
		o.kib += o.changes[i].kib
	}
	if pace := float64(d.in.Arrange.MoveBandwidth) / 1024; pace > 0 {
		o.seconds = o.kib / pace
	}
	before := d.lost
	d.touch(o, true)
	for i := range o.changes {
		c := &o.changes[i]
		m.shift(c.w, c.w.run, c.w.mem, c.run, c.w.mem)
	}
	start := d.lostNow()
	for i := range o.changes {
		c := &o.changes[i]
		m.shift(c.w, c.run, c.w.mem, c.run, c.mem)
	}
	after := d.lostNow()
	d.touch(o, false)
	for i := range o.changes {
		for _, p := range o.changes[i].mem {
			low := lowFree * float64(m.host.Nodes[p.node].Memory)
			if had := d.free[p.node]; o.rejected.None() && had >= 0 && m.free[p.node] < low && m.free[p.node] < had {
				o.rejected = words.Because(words.WouldFill, m.rooms[p.node].Node, max(0, m.free[p.node]),
					m.host.Nodes[p.node].Memory)
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
	o.horizon = s.Horizon.Seconds()
	for i := range o.changes {
		c := &o.changes[i]
		o.horizon = min(o.horizon, horizon(c.w.age))
		for _, p := range c.w.run {
			if d.crowded[p.node] > 0 {
				o.horizon = min(o.horizon, horizon(d.crowded[p.node]))
			}
		}
	}
	horizon := o.horizon
	waiting := min(d.queue, horizon)
	moving := min(o.seconds, horizon-waiting)
	if o.kib == 0 {
		waiting = 0
	}
	o.gain = (before-start)*waiting + (before-(start+after)/2)*moving + o.saves*(horizon-waiting-moving)
}

// touch marks the nodes on which an option changes anything, or no longer.
func (d *decider) touch(o *option, touched bool) {
	for i := range o.changes {
		c := &o.changes[i]
		for _, parts := range [...][]part{c.w.run, c.w.mem, c.run, c.mem} {
			for _, p := range parts {
				d.touched[p.node] = touched
			}
		}
	}
}

// lostNow is model.lost while an option is tried: on all other nodes nothing has changed.
func (d *decider) lostNow() float64 {
	sum := d.m.far
	for i, touched := range d.touched {
		if touched {
			sum += d.m.lostOn(i)
		} else {
			sum += d.lostOn[i]
		}
	}
	return sum
}

// moving is the seconds in which the memory of one change moves.
func (o *option) moving(c *shift) float64 {
	if o.kib == 0 {
		return 0
	}
	return o.seconds * c.kib / o.kib
}
