package interrupts

import (
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// on is a host of two nodes with a device on node 1 whose interrupt is on node 0.
func on() (*concern.Scene, *concerntest.Loop, Bound) {
	sc, loop := concerntest.On(plantest.Draw("0 0-3 16G 10 20\n1 4-7 16G 20 10\n"))
	device := irq.Device{
		Name: "nvme0", PCI: "p", Node: 1, Interrupts: []irq.Interrupt{{Number: 40, CPUs: topology.CPUs(0)}},
	}
	b := Bound{Concern: &Concern{Devices: Devices{All: []irq.Device{device}}}, Mode: Place, Queues: irq.KeepQueues}
	return sc, loop, b
}

// TestPlaces: an interrupt goes to the node of its device, after a survey alone.
func TestPlaces(t *testing.T) {
	manager := scene.Manager{Name: "irqbalance", Interrupts: true}
	for _, c := range []struct {
		name   string
		change func(*concern.Scene, *Bound)
		want   bool
		plans  bool
	}{
		{"after a survey", func(*concern.Scene, *Bound) {}, true, true},
		{"at a scan", func(sc *concern.Scene, _ *Bound) { sc.Between = false }, false, true},
		{"nothing is changed", func(sc *concern.Scene, _ *Bound) { sc.Acts = false }, false, true},
		{"report", func(_ *concern.Scene, b *Bound) { b.Mode = Report }, false, true},
		{"left to a manager", func(_ *concern.Scene, b *Bound) { b.Managers = []scene.Manager{{}, manager} }, false, true},
		{"left to the first manager", func(_ *concern.Scene, b *Bound) {
			b.Managers = []scene.Manager{manager}
		}, false, true},
		{"a manager of something else", func(_ *concern.Scene, b *Bound) {
			b.Managers = []scene.Manager{{Name: "x"}}
		}, true, true},
		{"no devices", func(_ *concern.Scene, b *Bound) { b.Devices.All = nil }, false, false},
		{"no host was read", func(sc *concern.Scene, _ *Bound) { sc.Snapshot.Host = nil }, false, false},
	} {
		sc, loop, b := on()
		sc.Between = true
		c.change(sc, &b)
		want := ""
		if c.want {
			want = "irq p/40 of device:nvme0: set-irq 0 > 4-7 irq-of-device is otherwise now"
		}
		concerntest.Expect(t, c.name, concerntest.Lines(b.Decide(sc).Settings), want)
		if over := loop.Logged() == "over [irq plan]"; over != c.want {
			t.Errorf("%s: a plan is sound again: %v", c.name, over)
		}
		if got := len(b.Devices.Plan.Steps) > 0; got != c.plans {
			t.Errorf("%s: plan %+v", c.name, b.Devices.Plan)
		}
		if c.name == "left to a manager" && b.Devices.Left != "irqbalance" {
			t.Errorf("left to %q", b.Devices.Left)
		}
	}
}

// TestAvoids: interrupts keep off the CPUs of dedicated work, their idle siblings, and those of managers.
func TestAvoids(t *testing.T) {
	sc, _, b := on()
	for id, class := range map[workload.ID]workload.Class{"/d": workload.Dedicated, "/s": workload.Shared} {
		concerntest.Add(sc, place.Subject{Observation: workload.Observation{ID: id}}, &workload.Placement{
			Class: class, CPUs: topology.CPUs(4), Idle: topology.CPUs(5),
		})
	}
	sc.Plan.Placements[1].CPUs = topology.CPUs(6)
	b.Managers = []scene.Manager{{CPUs: topology.CPUs(7)}}
	b.Decide(sc)
	if got := b.Devices.Avoid.String(); got != "4-5,7" {
		t.Errorf("avoided: %s", got)
	}
	if to := b.Devices.Plan.Steps[0].To; to != "6" {
		t.Errorf("the interrupt goes to %s", to)
	}
}

// TestMoves: whether this concern, or another program, moves an interrupt.
func TestMoves(t *testing.T) {
	_, _, b := on()
	for _, c := range []struct {
		name     string
		mode     Mode
		managers []scene.Manager
		number   int
		want     bool
	}{
		{"of a device", Place, nil, 40, true}, {"of none", Place, nil, 41, false}, {"report", Report, nil, 40, false},
		{"a manager's", Report, []scene.Manager{{}, {Interrupts: true}}, 41, true},
		{"no manager's", Report, []scene.Manager{{}}, 40, false},
	} {
		b.Mode, b.Managers = c.mode, c.managers
		if got := b.Moves(c.number); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestEnded: the host is surveyed again when a device made its interrupts anew, and when the kernel keeps one.
func TestEnded(t *testing.T) {
	fixed := &work.Failure{Code: work.Fixed}
	device := plan.Target{Device: "p/40"}
	for _, c := range []struct {
		name  string
		step  plan.Step
		f     *work.Failure
		again bool
		fixed int
	}{
		{"queues", plan.Step{Kind: plan.SetQueues}, nil, true, 0},
		{"queues failed", plan.Step{Kind: plan.SetQueues}, &work.Failure{}, false, 0},
		{"an interrupt", plan.Step{Kind: plan.SetIRQ, Target: device}, nil, false, 0},
		{"an interrupt failed", plan.Step{Kind: plan.SetIRQ, Target: device}, &work.Failure{}, false, 0},
		{"the kernel keeps it", plan.Step{Kind: plan.SetIRQ, Target: device}, fixed, true, 1},
		{"the kernel keeps one of no device", plan.Step{Kind: plan.SetIRQ}, fixed, false, 0},
	} {
		sc, loop, b := on()
		b.Fixed = map[string]bool{}
		if b.Ended(sc, &c.step, c.f) {
			t.Errorf("%s: it acts before the survey", c.name)
		}
		if again := len(loop.Log) == 1; again != c.again || len(b.Fixed) != c.fixed {
			t.Errorf("%s: %v, kept %v", c.name, loop.Log, b.Fixed)
		}
	}
	if (Bound{}).Owns(&plan.Entry{Kind: plan.IRQAffinity}) {
		t.Error("it owns interrupts: they would be restored without undo")
	}
}

// TestFound: a survey shows which interrupts the kernel keeps, and refusals of devices that are gone are forgotten.
func TestFound(t *testing.T) {
	c := Concern{Fixed: map[string]bool{"p/40": true, "gone/1": true}}
	c.Found([]irq.Device{{PCI: "p", Interrupts: []irq.Interrupt{{Number: 40}, {Number: 41}}}})
	all := c.Devices.All[0].Interrupts
	if !all[0].Fixed || all[1].Fixed || len(c.Fixed) != 1 || !c.Fixed["p/40"] {
		t.Errorf("%+v, kept %v", all, c.Fixed)
	}
}
