package homes

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// The ledger is written when anything of a placement is another than on disk, and only then.
func TestSamePlacements(t *testing.T) {
	p := workload.Placement{Workload: "/a", Start: 7, Class: workload.Dedicated, VCPUs: 1, Home: topology.Nodes(0), CPUs: topology.CPUs(1),
		Pins: []topology.CPUID{1}, Memory: []workload.NodeMemory{{Node: 0, KiB: 4}}}
	for name, change := range map[string]func(*workload.Placement){
		"":         func(*workload.Placement) {},
		"workload": func(p *workload.Placement) { p.Workload = "/b" },
		"start":    func(p *workload.Placement) { p.Start = 8 },
		"class":    func(p *workload.Placement) { p.Class = workload.Shared },
		"vcpus":    func(p *workload.Placement) { p.VCPUs = 2 },
		"home":     func(p *workload.Placement) { p.Home = topology.Nodes(1) },
		"cpus":     func(p *workload.Placement) { p.CPUs = topology.CPUs(2) },
		"pins":     func(p *workload.Placement) { p.Pins = []topology.CPUID{2} },
		"memory":   func(p *workload.Placement) { p.Memory = []workload.NodeMemory{{Node: 0, KiB: 5}} },
	} {
		other := p
		change(&other)
		if same := SamePlacements([]workload.Placement{p}, []workload.Placement{other}); same != (name == "") {
			t.Errorf("with another %q: same %v", name, same)
		}
	}
	if SamePlacements([]workload.Placement{p}, nil) || SamePlacements(nil, []workload.Placement{p}) || !SamePlacements(nil, nil) {
		t.Error("of other numbers")
	}
}
