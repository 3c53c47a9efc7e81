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

// TestSamePlacementsOfOneList: a list is the same as itself, and not as a longer one that begins with it.
func TestSamePlacementsOfOneList(t *testing.T) {
	one := make([]workload.Placement, 1)
	more := append(one, workload.Placement{})
	if !SamePlacements(one, one) || SamePlacements(one, more) || SamePlacements(more, one) || !SamePlacements(more[:1], more[:1]) {
		t.Error("of another length, or not the same as itself")
	}
}

// TestSharedSets: equal sets share one copy, and no set becomes another.
func TestSharedSets(t *testing.T) {
	const most = 64
	var sets []topology.CPUSet
	for i := range topology.CPUID(most + 2) {
		got, now := shared(sets, topology.CPUs(i))
		if !got.Equal(topology.CPUs(i)) || len(now) != min(most, int(i)+1) {
			t.Fatalf("%d: %s of %d", i, got, len(now))
		}
		again, same := shared(now, topology.CPUs(i))
		if sets = same; !again.Equal(got) || len(same) != len(now) {
			t.Fatalf("%d again: %s of %d", i, again, len(same))
		}
	}
	var all []workload.Placement
	for i := range topology.CPUID(200) {
		all = append(all, workload.Placement{Home: topology.Nodes(topology.NodeID(i % 3)), CPUs: topology.CPUs(i % 100)})
	}
	if out := sharing(all); !SamePlacements(out, all) || &out[0] == &all[0] {
		t.Error("other placements, or the same list")
	}
}
