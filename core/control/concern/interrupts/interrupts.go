package interrupts

import (
	"slices"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Mode is what homenode does about interrupts.
type Mode string

// Modes.
const (
	Off    Mode = "off"    // nothing is read
	Report Mode = "report" // status shows where they belong
	Place  Mode = "place"  // enforce mode sets them
)

// Devices is the newest survey of interrupts and what it led to.
type Devices struct {
	All   []irq.Device
	Plan  irq.Plan
	Left  string          // the program that interrupts are left to; "" for none
	Avoid topology.CPUSet // CPUs of dedicated work and of other programs
}

// Concern decides where interrupts and queues go.
type Concern struct {
	Devices Devices
	Fixed   map[string]bool // interrupts that the kernel lets nobody change
}

// Bound is the concern with what it needs of others.
type Bound struct {
	*Concern
	Mode     Mode
	Queues   irq.QueueCount
	Managers []scene.Manager
}

// Name implements concern.Concern.
func (Bound) Name() string { return "interrupts" }

// Owns implements concern.Concern.
func (Bound) Owns(*plan.Entry) bool { return false }

// Decide implements concern.Concern. CPUs of dedicated work change with each scan; steps follow a
// survey alone, which shows the current settings.
func (b Bound) Decide(sc *concern.Scene) (out concern.Desired) {
	b.plan(sc)
	return b.place(sc)
}

// Moves reports whether interrupt N is of a device that this concern places, or is left to another program.
func (b Bound) Moves(number int) bool {
	if slices.ContainsFunc(b.Managers, func(m scene.Manager) bool { return m.Interrupts }) {
		return true
	}
	return b.Mode == Place && irq.HasNumber(b.Devices.All, number)
}

// place returns the steps of the plan, unless it breaks a rule: that is in history once.
func (b Bound) place(sc *concern.Scene) (out concern.Desired) {
	d := &b.Devices
	places := sc.Between && sc.Acts && b.Mode == Place
	if !places || d.Left != "" || len(d.Plan.Steps) == 0 {
		return out
	}
	if bad := irq.Check(sc.Snapshot.Host, d.Avoid, d.All, d.Plan.Steps); bad != "" {
		sc.Once("irq plan", plan.Event{Kind: plan.EventPlan, Error: true}, words.InterruptsUnsound, bad)
		return out
	}
	sc.Over("irq plan")
	for _, step := range d.Plan.Steps {
		step.Optional = true
		out.Settings = append(out.Settings, concern.Desire{Kind: plan.IRQAffinity, Path: step.Target.Device, Step: step,
			Stands: concern.No, Now: true})
	}
	return out
}

// Ended implements concern.Concern.
func (b Bound) Ended(sc *concern.Scene, step *plan.Step, f *work.Failure) bool {
	switch {
	case step.Kind == plan.SetQueues && f == nil: // the device made its interrupts anew
		sc.SurveyAgain(work.Interrupts)
	case f != nil && f.Code == work.Fixed && step.Target.Device != "":
		b.Fixed[step.Target.Device] = true
		sc.SurveyAgain(work.Interrupts)
	}
	return false
}

// Found takes up the devices that a survey found, and forgets refusals of devices that are gone.
func (c *Concern) Found(devices []irq.Device) {
	c.Devices.All = devices
	fixed := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		for k := range d.Interrupts {
			x := &d.Interrupts[k]
			path := irq.Path(d, x)
			x.Fixed = c.Fixed[path]
			if x.Fixed {
				fixed[path] = true
			}
		}
	}
	c.Fixed = fixed
}

// plan decides where interrupts belong. Readers have the Devices of before.
func (b Bound) plan(sc *concern.Scene) {
	h := sc.Snapshot.Host
	if len(b.Devices.All) == 0 || h == nil {
		b.Concern.Devices = Devices{}
		return
	}
	d := Devices{All: b.Devices.All, Avoid: scene.KeptCPUs(b.Managers)}
	homes := sc.Homes()
	for i := range homes {
		if p := &homes[i]; p.Class == workload.Dedicated {
			d.Avoid = d.Avoid.Union(p.CPUs).Union(p.Idle)
		}
	}
	if i := slices.IndexFunc(b.Managers, func(m scene.Manager) bool { return m.Interrupts }); i >= 0 {
		d.Left = b.Managers[i].Name
	}
	d.Plan = irq.Decide(h, d.Avoid, d.All, b.Queues)
	b.Concern.Devices = d
}
