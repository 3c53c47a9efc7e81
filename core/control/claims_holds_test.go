package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
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
	both := own("vm:a/emulator", 0, 0, 3)
	both.Memory, both.Asked = memory.Memory, memory.Asked
	for name, tt := range map[string]struct {
		claims []workload.Claim
		change func(*Settings)
		kept   topology.CPUSet // from all others
	}{
		"on reserved CPUs":      {[]workload.Claim{{ID: "vm:a", Holds: []workload.Placement{own("vm:a/emulator", 0, 0, 3)}}}, func(s *Settings) { s.Policy.Reserved = topology.CPUs(0, 1) }, topology.CPUs(0, 3)},
		"beyond the partition":  {[]workload.Claim{{ID: "vm:a", Holds: []workload.Placement{own("vm:a/emulator", 0, 2, 3)}}}, func(s *Settings) { s.Partition = "8-15" }, topology.CPUs(2, 3)},
		"with memory":           {[]workload.Claim{{ID: "vm:a", Holds: []workload.Placement{both}}}, func(s *Settings) { s.Policy.Reserved = topology.CPUs(0, 1) }, topology.CPUs(0, 3)},
		"twice":                 {[]workload.Claim{{ID: "vm:a", Holds: []workload.Placement{own("vm:a/emulator", 0, 0, 3)}}, {ID: "vm:b", Holds: []workload.Placement{own("vm:a/emulator", 0, 0, 3)}}}, func(s *Settings) { s.Policy.Reserved = topology.CPUs(0, 1) }, topology.CPUs(0, 3)},
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
			var kib topology.KiB
			for _, h := range tt.claims[0].Holds {
				kib += workload.Total(h.Memory)
				if p := place.Of(f.s.Facts.Placements, h.Workload); (p == nil) != (len(h.Memory) == 0 && h.CPUs.Intersects(f.s.Facts.Policy.Reserved)) || p != nil && workload.Total(p.Memory) != kib {
					t.Errorf("of %+v the ledger has %+v", h, p)
				}
			}
		})
	}
}

// Where a claimed workload is its manager knows; the ledger knows better only of what
// homenode itself is about to change.
func TestWhatAClaimHolds(t *testing.T) {
	at := func(class workload.Class, node topology.NodeID) *workload.Placement {
		p := own("vm:a", node, topology.CPUID(8*node))
		p.Class = class
		return &p
	}
	here, there := at(workload.Shared, 0), at(workload.Shared, 1)
	bound := func(p *workload.Placement) binding { return binding{CPUs: p.CPUs, Nodes: p.Home} }
	next := func(ours bool) *workload.Next { return &workload.Next{Home: there, Ours: ours} }
	hand := words.Because(words.GuestBound, "by hand")
	for name, tt := range map[string]struct {
		ledger *workload.Placement
		claim  workload.Claim // of vm:a, running where Home says unless CPUs say otherwise
		was    *binding
		task   *Task
		want   *workload.Placement
	}{
		"dedicated: where it is":           {ledger: here, claim: workload.Claim{Home: at(workload.Dedicated, 1)}, want: at(workload.Dedicated, 1)},
		"not seen before: where it is":     {claim: workload.Claim{Home: there}, want: there},
		"at home, and the ledger knows":    {ledger: at(workload.Batch, 0), claim: workload.Claim{Home: here}, was: new(bound(here)), want: at(workload.Batch, 0)},
		"on its way":                       {ledger: there, claim: workload.Claim{Home: here}, was: new(bound(here)), want: there},
		"moved by hand":                    {ledger: here, claim: workload.Claim{Home: there}, was: new(bound(here)), want: there},
		"moved by hand under a task":       {ledger: here, claim: workload.Claim{Home: there}, was: new(bound(here)), task: &Task{}, want: here},
		"moved while nobody looked":        {ledger: here, claim: workload.Claim{Home: there}, want: there},
		"half way when it is first seen":   {ledger: here, claim: workload.Claim{Home: there, Mems: here.Home}, want: here},
		"changed on request":               {ledger: here, claim: workload.Claim{Home: there}, was: new(bound(here)), task: &Task{Request: 1}, want: here},
		"at no home, and the ledger knows": {ledger: here, claim: workload.Claim{}, want: here},
		"at no home":                       {claim: workload.Claim{}},
		"bound by hand":                    {ledger: here, claim: workload.Claim{Home: there, Alone: hand}},
		"silent":                           {ledger: here, claim: workload.Claim{Alone: hand, Fixed: true}, want: here},
		"started where homenode wrote":     {claim: workload.Claim{Next: next(true)}, want: there},
		"started where somebody wrote":     {claim: workload.Claim{Next: next(false)}},
		"started by hand":                  {claim: workload.Claim{Next: next(true), Alone: hand}},
		"started, with a home":             {ledger: here, claim: workload.Claim{Next: next(true)}, want: here},
		"holds":                            {claim: workload.Claim{Holds: []workload.Placement{*there}}, want: there},
	} {
		s := New(defaults(), Saved{})
		f := newFake(t, 2, 8)
		c := tt.claim
		c.ID, c.Running, c.Caps.Rebinds = "vm:a", true, true
		if c.Home != nil && c.CPUs.Empty() {
			c.CPUs = c.Home.CPUs
		}
		if c.Home != nil && c.Mems.Empty() {
			c.Mems = c.Home.Home
		}
		s.Claims = map[workload.ID]*workload.Claim{"vm:a": &c}
		ledger := []workload.Placement{own("/other", 1, 15)}
		if tt.ledger != nil {
			ledger = append(ledger, *tt.ledger)
		}
		if tt.was != nil {
			s.Bindings["vm:a"] = *tt.was
		}
		if tt.task != nil {
			s.Tasks["vm:a"] = tt.task
		}
		all := s.withClaims(ledger, f.host())
		if diff := cmp.Diff(tt.want, place.Of(all, "vm:a")); diff != "" || place.Of(all, "/other") == nil {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		seen := binding{CPUs: c.CPUs, Nodes: c.Mems}
		if tt.task != nil && tt.task.Request != 0 {
			seen = *tt.was
		}
		if got := s.Bindings["vm:a"]; !got.CPUs.Equal(seen.CPUs) || !got.Nodes.Equal(seen.Nodes) {
			t.Errorf("%s: bound to %+v, want %+v", name, got, seen)
		}
		c.Running = false
		if p := place.Of(s.withClaims(ledger, f.host()), "vm:a"); p != nil && p.Class != workload.Dedicated && len(c.Holds) == 0 && tt.task == nil {
			t.Errorf("%s: off, it holds %+v", name, p)
		}
	}
}

// CPUs of its own for each vCPU are set and taken back also where those of its cgroup stay the same.
func TestVCPUsFollow(t *testing.T) {
	f := newFake(t, 1, 4)
	f.add("qemu.slice/100.scope", 4, 1<<20, 0)
	c := boundBy("vm:100", "/qemu.slice/100.scope")
	c.Driver, c.Caps, c.Spec.CPUs = "", workload.Caps{PinsThreads: true}, 4
	all := f.host().Online
	scan := func() {
		t.Helper()
		for range 3 {
			f.claimedScan(c)
		}
	}
	has := func(n int, why words.Code) {
		t.Helper()
		steps := f.applies(plan.SetCPUs)
		if len(steps) != n || n > 0 && (steps[n-1].To != "0-3" || steps[n-1].Reason.Code != why) {
			t.Fatalf("want %d, the last by %q: %s", n, why, asJSON(t, steps))
		}
	}
	c.VCPUSets = []topology.CPUSet{all, all, all, all}
	scan()
	has(0, "") // as a shared one it has all there is
	c.Spec.Class = workload.Dedicated
	f.claimedScan(c)
	has(1, words.DedicatedCPUs)
	c.VCPUSets = nil
	for _, cpu := range f.placement("vm:100").Pins {
		c.VCPUSets = append(c.VCPUSets, topology.CPUs(cpu))
	}
	scan()
	has(1, words.DedicatedCPUs)
	c.VCPUSets[2] = topology.CPUSet{} // it has ended
	scan()
	has(1, words.DedicatedCPUs)
	c.Spec.Class = workload.Shared
	f.claimedScan(c)
	has(2, words.SharedCPUs)
	c.VCPUSets = []topology.CPUSet{all, all, all, all}
	scan()
	has(2, words.SharedCPUs)
}
