package sharing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// Scenario is a host and what happens on it.
type Scenario struct {
	Name   string
	Host   string // as topology.FromSynthetic reads it
	Target float64
	For    time.Duration
	build  func(b *builder)
}

// builder puts work on a host.
type builder struct {
	h *host
	r *rand.Rand // of the seed: what the loads are like
	n int
}

// p is the CPUs of a node.
func (b *builder) p() float64 { return float64(b.h.nodes[0].cpus.Len()) }

// online adds a service on a node; -1 is on all.
func (b *builder) online(node int, wants load, noise float64) *work {
	w := &work{id: workload.ID(fmt.Sprintf("/online/s%03d", b.n)), class: workload.Shared, wants: wants, noise: noise}
	b.n++
	if node >= 0 {
		w.on = make([]float64, len(b.h.nodes))
		w.on[node] = 1
	} else {
		w.aside = true
	}
	b.h.add(w)
	return w
}

// each adds a service on every node; f says what it wants of the node's CPUs, 0 to 1.
func (b *builder) each(noise float64, f func(node int) load) {
	for i := range b.h.nodes {
		f, p := f(i), b.p()
		b.online(i, func(at float64) float64 { return p * f(at) }, noise*p)
	}
}

// batch adds jobs that could use so many CPUs each.
func (b *builder) batch(cpus ...float64) {
	for i, c := range cpus {
		b.h.add(&work{id: workload.ID(fmt.Sprintf("/batch/j%03d", i)), class: workload.Batch, wants: constant(c)})
	}
}

// hogs adds batch work that can use everything: some wide jobs and many of one thread.
func (b *builder) hogs() {
	all := float64(b.h.top.Online.Len())
	b.batch(all, all, 1, 1, 1, 1)
}

func (b *builder) dedicated(node, cpus int, from, until time.Duration) {
	on := make([]float64, len(b.h.nodes))
	on[node] = 1
	b.h.add(&work{id: workload.ID(fmt.Sprintf("/dedicated/d%03d", b.n)), class: workload.Dedicated,
		wants: constant(0.7 * float64(cpus)), own: cpus, on: on, from: from, until: until})
	b.n++
}

func constant(c float64) load { return func(float64) float64 { return c } }

// diurnal is a day of so many minutes.
func diurnal(low, high, minutes, phase float64) load {
	return func(at float64) float64 {
		return low + (high-low)*(1-math.Cos(2*math.Pi*(at/60/minutes+phase)))/2
	}
}

// steps is another level every few minutes.
func steps(r *rand.Rand, low, high float64, minutes float64) load {
	levels := make([]float64, 64)
	for i := range levels {
		levels[i] = low + (high-low)*r.Float64()
	}
	shift := r.Float64() * minutes
	return func(at float64) float64 { return levels[int((at/60+shift)/minutes)%len(levels)] }
}

// bursts is a level with bursts of some seconds, every so many on average.
func bursts(r *rand.Rand, base, more, long, every float64) load {
	type burst struct{ from, until float64 }
	var all []burst
	for at := every * r.Float64(); at < 7200; at += every * (0.7 + 0.6*r.Float64()) {
		all = append(all, burst{at, at + long*(0.5+r.Float64())})
	}
	return func(at float64) float64 {
		for _, b := range all {
			if at >= b.from && at < b.until {
				return base + more
			}
		}
		return base
	}
}

// ramps goes up and down in straight lines.
func ramps(low, high, minutes float64) load {
	return func(at float64) float64 {
		x := math.Mod(at/60/minutes, 2)
		return low + (high-low)*min(x, 2-x)
	}
}

// Scenarios is twenty, in the order of the table.
func Scenarios() []Scenario { return slices.Concat(fewNodes(), manyNodes()) }

// half is how long most of them take.
const half = 30 * time.Minute

// fewNodes is those of one and two nodes, but for some at the end of the table.
func fewNodes() []Scenario {
	return []Scenario{
		{"4 CPUs, SMT, steady", "node:1 core:2 pu:2", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return constant(0.1 + 0.25*b.r.Float64()) })
			b.hogs()
		}},
		{"4 CPUs, no SMT, steps", "node:1 core:4 pu:1", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return steps(b.r, 0.05, 0.5, 4) })
			b.hogs()
		}},
		{"8 CPUs, SMT, a day in an hour", "node:1 core:4 pu:2", 0.65, time.Hour, func(b *builder) {
			b.each(0.01, func(int) load { return diurnal(0.1, 0.5, 60, b.r.Float64()) })
			b.hogs()
		}},
		{"16 CPUs, no SMT, bursts", "node:1 core:16 pu:1", 0.65, half, func(b *builder) {
			b.each(0.005, func(int) load { return bursts(b.r, 0.2, 0.35, 15, 180) })
			b.hogs()
		}},
		{"32 CPUs, SMT, noisy", "node:1 core:16 pu:2", 0.65, half, func(b *builder) {
			b.each(0.03, func(int) load { return constant(0.2 + 0.2*b.r.Float64()) })
			b.hogs()
		}},
		{"128 CPUs, SMT, a day in an hour", "node:1 core:64 pu:2", 0.65, time.Hour, func(b *builder) {
			b.each(0.01, func(int) load { return diurnal(0.15, 0.5, 60, b.r.Float64()) })
			b.hogs()
		}},
		{"2 × 8 CPUs, SMT, ramps", "node:2 core:4 pu:2", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return ramps(0.1, 0.5, 15) })
			b.hogs()
		}},
		{"2 × 16 CPUs, SMT, steps", "node:2 core:8 pu:2", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return steps(b.r, 0.1, 0.6, 5) })
			b.hogs()
		}},
		{"2 × 32 CPUs, SMT, spikes", "node:2 core:16 pu:2", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return bursts(b.r, 0.25, 0.4, 4, 120) })
			b.hogs()
		}},
		{"2 × 64 CPUs, SMT, 60 small services", "node:2 core:32 pu:2", 0.65, half, func(b *builder) {
			for i := range 60 {
				b.online(i%2, diurnal(0.2, 1.2, 20+20*b.r.Float64(), b.r.Float64()), 0.2)
			}
			b.hogs()
		}},
		{"2 × 16 CPUs, no SMT, one wide service", "node:2 core:16 pu:1", 0.65, half, func(b *builder) {
			b.online(-1, steps(b.r, 4, 14, 5), 0.3)
			b.hogs()
		}},
	}
}

// manyNodes is the others.
func manyNodes() []Scenario {
	return []Scenario{
		{"4 × 8 CPUs, no SMT, noisy", "node:4 core:8 pu:1", 0.65, half, func(b *builder) {
			b.each(0.03, func(int) load { return constant(0.15 + 0.2*b.r.Float64()) })
			b.hogs()
		}},
		{"4 × 16 CPUs, SMT, dedicated work comes and goes", "node:4 core:8 pu:2", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return constant(0.1 + 0.1*b.r.Float64()) })
			for i := range 6 {
				at := time.Duration(60+b.r.IntN(900)) * time.Second
				b.dedicated(i%4, 4, at, at+time.Duration(180+b.r.IntN(400))*time.Second)
			}
			b.hogs()
		}},
		{"4 × 32 CPUs, SMT, days out of step", "node:4 core:16 pu:2", 0.65, time.Hour, func(b *builder) {
			b.each(0.01, func(i int) load { return diurnal(0.1, 0.55, 60, float64(i)/4+b.r.Float64()/8) })
			b.hogs()
		}},
		{"8 × 16 CPUs, SMT, steps", "node:8 core:8 pu:2", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return steps(b.r, 0.05, 0.5, 6) })
			b.hogs()
		}},
		{"8 × 64 CPUs, SMT, 48 services by day", "node:8 core:32 pu:2", 0.65, half, func(b *builder) {
			for i := range 48 {
				b.online(i%8, diurnal(0.5, 5, 40+20*b.r.Float64(), b.r.Float64()), 0.1)
			}
			b.hogs()
		}},
		{"2 × 24 CPUs, SMT, the system is busy", "node:2 core:12 pu:2", 0.7, half, func(b *builder) {
			b.each(0.01, func(int) load { return constant(0.2 + 0.1*b.r.Float64()) })
			for _, n := range b.h.nodes {
				f := bursts(b.r, 0.5, 6, 90, 400)
				n.system = f
			}
			b.hogs()
		}},
		{"2 × 16 CPUs, SMT, little batch work", "node:2 core:8 pu:2", 0.65, half, func(b *builder) {
			b.each(0.01, func(int) load { return constant(0.1 + 0.2*b.r.Float64()) })
			b.batch(2, 1.5, 1)
			b.h.add(&work{id: "/batch/later", class: workload.Batch, wants: constant(32), from: 10 * time.Minute,
				until: 20 * time.Minute})
		}},
		{"16 CPUs, no SMT, overload", "node:1 core:16 pu:1", 0.8, time.Hour, func(b *builder) {
			b.each(0.01, func(int) load { return ramps(0.3, 1.15, 30) })
			b.hogs()
		}},
		{"2 × 32 CPUs, SMT, everything at once", "node:2 core:16 pu:2", 0.75, half, func(b *builder) {
			b.each(0.015, func(int) load { return steps(b.r, 0.1, 0.35, 6) })
			b.each(0.005, func(int) load { return bursts(b.r, 0, 0.25, 10, 150) })
			b.online(-1, diurnal(1, 6, 20, b.r.Float64()), 0.2)
			b.dedicated(0, 8, 5*time.Minute, 12*time.Minute)
			b.dedicated(1, 4, 15*time.Minute, 0)
			b.hogs()
		}},
	}
}
