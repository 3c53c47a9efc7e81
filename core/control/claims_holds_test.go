package control

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// claimedScan is a scan with what one source claims.
func (f *fake) claimedScan(claims ...workload.Claim) {
	f.t.Helper()
	s := f.begin()
	s.Snapshot = f.snapshot()
	s.Claims = []Claimed{{Source: "runtime", Claims: claims}}
	f.turn(Input{Scan: s})
	f.run()
	f.after(2 * 1e9)
}

// own is CPUs that somebody pinned work to, one to one.
func own(id workload.ID, node topology.NodeID, cpus ...topology.CPUID) workload.Placement {
	return workload.Placement{Workload: id, Class: workload.Dedicated, Importance: 50, VCPUs: len(cpus), Home: topology.Nodes(node), CPUs: topology.CPUs(cpus...), Pins: cpus}
}

// What others hold stands, wherever it is: on CPUs of the host, beyond the partition, or
// memory alone. It holds up nothing, and nobody else gets it.
func TestHoldsStandAnywhere(t *testing.T) {
	memory := workload.Placement{Workload: "vm:a/pages", Class: workload.Shared, Home: topology.Nodes(0), Memory: []workload.NodeMemory{{Node: 0, KiB: 4 << 20}}, Asked: 4 << 20}
	fixed := own("vm:f", 1, 12, 13)
	for name, tt := range map[string]struct {
		claims []workload.Claim
		change func(*Settings)
		kept   topology.CPUSet // from all others
	}{
		"on reserved CPUs":      {[]workload.Claim{{ID: "vm:a", Holds: []workload.Placement{own("vm:a/emulator", 0, 0, 3)}}}, func(s *Settings) { s.Policy.Reserved = topology.CPUs(0, 1) }, topology.CPUs(0, 3)},
		"beyond the partition":  {[]workload.Claim{{ID: "vm:a", Holds: []workload.Placement{own("vm:a/emulator", 0, 2, 3)}}}, func(s *Settings) { s.Partition = "8-15" }, topology.CPUs(2, 3)},
		"memory alone":          {[]workload.Claim{{ID: "vm:a", Holds: []workload.Placement{memory}}}, func(*Settings) {}, topology.CPUSet{}},
		"fixed on reserved":     {[]workload.Claim{{ID: "vm:f", Driver: "guest", Running: true, Fixed: true, Home: &fixed, CPUs: fixed.CPUs, Mems: fixed.Home, Caps: workload.Caps{Rebinds: true}, Spec: &workload.Spec{ID: "vm:f", Class: workload.Dedicated, CPUs: 2}}}, func(s *Settings) { s.Policy.Reserved = topology.CPUs(12) }, topology.CPUs(12, 13)},
		"fixed on the far side": {[]workload.Claim{{ID: "vm:f", Driver: "guest", Running: true, Fixed: true, Home: &fixed, CPUs: fixed.CPUs, Mems: fixed.Home, Caps: workload.Caps{Rebinds: true}, Spec: &workload.Spec{ID: "vm:f", Class: workload.Dedicated, CPUs: 2}}}, func(s *Settings) { s.Partition = "0-7" }, topology.CPUs(12, 13)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 2, 8, tt.change)
			a := f.add("a", 2, 1<<20, 0)
			for range 3 {
				f.claimedScan(tt.claims...)
			}
			if why := f.s.Halted; !why.None() || len(f.s.Snapshot.Problems) > 0 {
				t.Fatalf("%s %+v", why, f.s.Snapshot.Problems)
			}
			p := f.placement(a)
			if p == nil || p.CPUs.Empty() || p.CPUs.Intersects(tt.kept) || f.get(plan.CgroupCPUs, "/a") == "" {
				t.Errorf("the other is at %+v, %q", p, f.get(plan.CgroupCPUs, "/a"))
			}
		})
	}
}
