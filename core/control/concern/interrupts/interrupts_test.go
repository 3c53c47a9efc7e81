package interrupts

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// loop records the lines of Once.
type loop struct {
	concern.Loop
	told *[]words.Code
}

func (l loop) Once(_ string, _ plan.Event, code words.Code, _ ...any) {
	*l.told = append(*l.told, code)
}
func (l loop) Over(string) {}

// TestUnsoundPlan: a plan for interrupts that breaks a rule is in history and not carried out.
func TestUnsoundPlan(t *testing.T) {
	host := &topology.Host{Online: topology.CPUs(0, 1), Allowed: topology.CPUs(0, 1), Nodes: []topology.Node{{CPUs: topology.CPUs(0, 1)}}}
	device := irq.Device{Name: "eth0", PCI: "p", Interrupts: []irq.Interrupt{{Number: 40}}}
	step := func(to string) plan.Step {
		return plan.Step{Kind: plan.SetIRQ, Workload: device.ID(), To: to, Target: plan.Target{Kind: workload.InHost, Device: "p/40"}}
	}
	for _, c := range []struct {
		name, to string
		begun    int
		told     []words.Code
	}{
		{"sound", "0", 1, nil},
		{"a CPU that is not there", "99", 0, []words.Code{words.InterruptsUnsound}},
	} {
		var told []words.Code
		sc := &concern.Scene{Between: true, Acts: true, Snapshot: &workload.Snapshot{Host: host}, Loop: loop{told: &told}}
		b := Bound{Concern: &Concern{Devices: Devices{All: []irq.Device{device}, Plan: irq.Plan{Steps: []plan.Step{step(c.to)}}}}, Mode: Place}
		if got := b.place(sc); len(got.Settings) != c.begun || !slices.Equal(told, c.told) {
			t.Errorf("%s: %d steps, told %v", c.name, len(got.Settings), told)
		}
	}
}
