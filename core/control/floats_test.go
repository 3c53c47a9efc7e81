package control

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// A guest that its manager lets float within some CPUs is placed as the process that it is:
// threads and pages, and nothing that its manager wrote. Where shared work may have other CPUs
// than those, it is left alone.
func TestFloatsWithin(t *testing.T) {
	dedicated := plan.Partition("4-7,12-15")
	for _, tt := range []struct {
		name      string
		partition plan.Partition
		within    topology.CPUSet
		alone     words.Code
	}{
		{"no fence", plan.AnyClass, topology.CPUSet{}, ""},
		{"the shared side", dedicated, topology.CPUs(0, 1, 2, 3, 8, 9, 10, 11), ""},
		{"more than the shared side", dedicated, topology.CPUs(0, 1, 2, 3, 4, 8, 9, 10, 11), ""},
		{"no partition, and a fence", plan.AnyClass, topology.CPUs(0, 1, 2, 3, 8, 9, 10, 11), words.Fenced},
		{"less than the shared side", dedicated, topology.CPUs(0, 1, 2, 3), words.Fenced},
	} {
		f := newFake(t, 2, 8, func(s *Settings) { s.Partition = tt.partition })
		f.add("machine.slice/qemu", 2, 1<<20, 1)
		c := boundBy("vm:a", "/machine.slice/qemu")
		c.Driver, c.Caps, c.Within, c.CPUs = workload.InProcess, workload.Caps{}, tt.within, tt.within
		for range 3 {
			f.claimedScan(c)
		}
		var alone words.Code
		for _, d := range f.s.Plan.Report.Decisions {
			if d.Workload == "vm:a" && d.Outcome == plan.LeftAlone {
				alone = d.Reasons[0].Code
			}
		}
		if alone != tt.alone {
			t.Errorf("%s: left alone by %q; want %q", tt.name, alone, tt.alone)
			continue
		}
		for _, s := range f.s.Plan.Steps {
			if s.Target.Kind != workload.InProcess || tt.alone != "" || s.Kind == plan.SetMems || s.Kind == plan.SetNext {
				t.Errorf("%s: %s of %s to %s", tt.name, s.Kind, s.Target.Kind, s.To)
			}
		}
		if p := f.s.Placements(); tt.alone == "" {
			k := f.home("vm:a")
			if k != "1" {
				t.Errorf("%s: home %q, %+v", tt.name, k, p)
			}
		}
	}
}

// Its threads come home, stay there, and go back when it is undone.
func TestFloatsAsAProcess(t *testing.T) {
	f := newFake(t, 2, 8)
	f.addProcess(4711, "qemu", 2, 1<<20, 1)
	p := workload.Process{PID: 4711, Start: 7}
	value := func() string { return f.values[settingKey{plan.Affinity, plan.ProcessPath(p)}].Value }
	was := value()
	c := boundBy("vm:a", "")
	c.Process, c.Cgroups, c.Driver, c.Caps = p, nil, workload.InProcess, workload.Caps{}
	scan := func() {
		c.CPUs, _ = topology.ParseCPUSet(value())
		f.claimedScan(c)
	}
	for range 4 {
		scan()
	}
	if value() != "8-15" || f.home("vm:a") != "1" {
		t.Fatalf("on CPUs %s, home %s", value(), f.home("vm:a"))
	}
	if e := f.s.Journal.Of(plan.Affinity, plan.ProcessPath(p)); e == nil || e.Workload != "vm:a" || e.Old != was {
		t.Errorf("journalled %+v", e)
	}
	f.undo("vm:a")
	if value() != was {
		t.Errorf("undone to CPUs %s; want %s", value(), was)
	}
}
