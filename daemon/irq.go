package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Interrupts says what is done about the interrupts of devices.
type Interrupts string

// What may be done. The default is report in observe mode and off in enforce mode:
// whoever lets homenode place work has not thereby said that it may turn to devices.
const (
	IRQOff    Interrupts = "off"    // nothing is read
	IRQReport Interrupts = "report" // status tells where they belong
	IRQPlace  Interrupts = "place"  // enforce mode puts them there
)

// interrupts is what holds in the mode of c.
func (c *Config) interrupts() Interrupts {
	switch {
	case c.IRQ == "" && c.Mode == Enforce:
		return IRQOff
	case c.IRQ == "", c.IRQ == IRQPlace && c.Mode == Observe:
		return IRQReport
	}
	return c.IRQ
}

// irqEvery is the time between two looks at interrupts: 300 of them take some 5 ms,
// and what is set stays until a driver is loaded or a CPU comes or goes.
const irqEvery = 10 * time.Second

// devices is the newest look at interrupts. at and fixed are the loop's alone; mu
// guards the others.
type devices struct {
	at    time.Time
	fixed map[string]bool // settings that the kernel let nobody change
	plan  irq.Plan
	left  string // to whom interrupts are left; "" when to nobody
	all   []irq.Device
	avoid topology.CPUSet // CPUs that are somebody's alone
}

// tendInterrupts looks where interrupts go and, if configured so, puts them on the
// node of their device. A look that fails is told of and changes nothing.
func (d *Daemon) tendInterrupts(ctx context.Context, h *topology.Host) {
	reader, ok := d.o.Drivers[workload.InDevice].(Devices)
	now := d.o.Clock.Now()
	mode := d.o.Config.interrupts()
	if !ok || mode == IRQOff || !d.devices.at.IsZero() && now.Sub(d.devices.at) < irqEvery {
		return
	}
	d.devices.at = now
	all, err := reader.Devices(ctx, h)
	if err != nil {
		if ctx.Err() == nil {
			d.once("irq", plan.Event{Kind: plan.EventHost, Error: true, Text: "look at interrupts: " + err.Error()})
		}
		return
	}
	d.once("irq", plan.Event{})
	d.markFixed(all)
	avoid, left, halted := d.avoid()
	next := irq.Decide(h, avoid, all, d.o.Config.IRQQueues)
	d.mu.Lock()
	d.devices.plan, d.devices.left, d.devices.all, d.devices.avoid = next, left, all, avoid
	d.mu.Unlock()
	if mode != IRQPlace || left != "" || halted {
		return
	}
	if bad := irq.Check(h, avoid, all, next.Steps); bad != "" {
		d.once("irq plan", plan.Event{Kind: plan.EventPlan, Error: true, Text: "interrupts are not placed: " + bad})
		return
	}
	d.once("irq plan", plan.Event{})
	changed := false
	anew := map[workload.ID]bool{} // devices with another number of queues than the plan was made on
	for _, s := range next.Steps {
		d.mu.Lock()
		held := d.held.has(s.Workload)
		d.mu.Unlock()
		if ctx.Err() != nil || held || anew[s.Workload] || d.waiting(s) {
			continue
		}
		err := d.applyOne(ctx, s)
		if errors.Is(err, plan.ErrFixed) {
			d.devices.fixed[s.Target.Device] = true
		}
		anew[s.Workload] = s.Kind == plan.SetQueues && err == nil
		changed = changed || err == nil || errors.Is(err, plan.ErrFixed)
	}
	if changed { // the next tick looks what became of it
		d.devices.at = time.Time{}
	}
}

// markFixed tells the decider what the kernel refused, and forgets what is gone.
func (d *Daemon) markFixed(all []irq.Device) {
	fixed := map[string]bool{}
	for i := range all {
		for k := range all[i].Interrupts {
			x := &all[i].Interrupts[k]
			path := fmt.Sprintf("%s/%d", all[i].PCI, x.Number)
			if x.Fixed = d.devices.fixed[path]; x.Fixed {
				fixed[path] = true
			}
		}
	}
	d.devices.fixed = fixed
}

// avoid is the CPUs that are somebody's alone, to whom interrupts as a whole are left,
// and whether the newest plan broke a rule.
func (d *Daemon) avoid() (cpus topology.CPUSet, left string, halted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cpus = d.rivals.cpus()
	for _, p := range d.view.plan.Placements {
		if p.Class == workload.Dedicated {
			cpus = cpus.Union(p.CPUs).Union(p.Idle)
		}
	}
	if d.rivals.find(doctor.Irqbalance) != nil {
		left = doctor.Irqbalance
	}
	return cpus, left, d.view.halted != ""
}

// deviceStatus is the wire form of the newest look at interrupts. d.mu is held.
func (d *Daemon) deviceStatus() []api.Device {
	out := []api.Device{}
	for _, r := range d.devices.plan.Reports {
		x := api.Device{Name: r.Device, Kind: string(r.Kind), Node: r.Node, Interrupts: r.Interrupts, AtHome: r.AtHome, Fixed: r.Fixed,
			Queues: r.Queues, MostQueues: r.MostQueues, Steps: r.Steps, Why: r.Why}
		id := (&irq.Device{Name: r.Device}).ID()
		failed := slices.ContainsFunc(d.devices.plan.Steps, func(s plan.Step) bool {
			t := d.tries[tryKey(s)]
			return s.Workload == id && t != nil && t.failures > 0
		})
		switch {
		case r.Steps == 0 && r.AtHome == r.Interrupts:
			x.State = "at home"
		case r.Steps == 0:
			x.State = "as planned"
		case d.o.Config.interrupts() != IRQPlace && r.AtHome == r.Interrupts:
			x.State = "would spread" // on the right node, and several on one CPU or one anywhere
		case d.o.Config.interrupts() != IRQPlace:
			x.State = "would move"
		case d.devices.left != "":
			x.State = "left to " + d.devices.left
		case d.held.has(id):
			x.State = "held"
		case failed:
			x.State = "failed"
		default:
			x.State = "moving"
		}
		out = append(out, x)
	}
	return out
}
