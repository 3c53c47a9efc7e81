package homes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestExactPlacement: the home is the named nodes, else the nodes of the named CPUs, with equal parts of the memory.
func TestExactPlacement(t *testing.T) {
	hosts := host(t).Facts.Host // node 0 has the CPUs 0-7, node 1 has 8-15
	for _, tt := range []struct {
		name   string
		class  workload.Class
		memory topology.KiB
		exact  Exact
		want   workload.Placement
	}{
		{"CPUs of one node", workload.Shared, 8, Exact{CPUs: topology.CPUs(8, 9)},
			workload.Placement{Home: topology.Nodes(1), CPUs: topology.CPUs(8, 9), Asked: 8, Memory: []workload.NodeMemory{{Node: 1, KiB: 8}}}},
		{"CPUs of both", workload.Shared, 9, Exact{CPUs: topology.CPUs(7, 8)},
			workload.Placement{Home: topology.Nodes(0, 1), CPUs: topology.CPUs(7, 8), Asked: 9, Memory: []workload.NodeMemory{{Node: 0, KiB: 4}, {Node: 1, KiB: 4}}}},
		{"nodes beat CPUs", workload.Shared, 8, Exact{CPUs: topology.CPUs(1), Nodes: topology.Nodes(1)},
			workload.Placement{Home: topology.Nodes(1), CPUs: topology.CPUs(1), Asked: 8, Memory: []workload.NodeMemory{{Node: 1, KiB: 8}}}},
		{"nodes alone", workload.Shared, 2, Exact{Nodes: topology.Nodes(0, 1)},
			workload.Placement{Home: topology.Nodes(0, 1), Asked: 2, Memory: []workload.NodeMemory{{Node: 0, KiB: 1}, {Node: 1, KiB: 1}}}},
		{"less memory than nodes", workload.Shared, 1, Exact{Nodes: topology.Nodes(0, 1)}, workload.Placement{Home: topology.Nodes(0, 1), Asked: 1}},
		{"memory not known", workload.Shared, 0, Exact{CPUs: topology.CPUs(1)}, workload.Placement{Home: topology.Nodes(0), CPUs: topology.CPUs(1)}},
		{"memory below zero", workload.Shared, -5, Exact{CPUs: topology.CPUs(1)}, workload.Placement{Home: topology.Nodes(0), CPUs: topology.CPUs(1)}},
		{"dedicated", workload.Dedicated, 0, Exact{CPUs: topology.CPUs(3, 9)},
			workload.Placement{Home: topology.Nodes(0, 1), CPUs: topology.CPUs(3, 9), Pins: []topology.CPUID{3, 9}}},
		{"batch", workload.Batch, 0, Exact{CPUs: topology.CPUs(3)}, workload.Placement{Home: topology.Nodes(0), CPUs: topology.CPUs(3)}},
	} {
		spec := workload.Spec{ID: "pid:7", Class: tt.class, Importance: 60, CPUs: 2, Memory: tt.memory}
		got := ExactPlacement(hosts, &spec, &PlaceRequest{Exact: &tt.exact, Process: workload.Process{PID: 7, Start: 77}})
		tt.want.Workload, tt.want.Class, tt.want.Importance, tt.want.VCPUs, tt.want.Start = "pid:7", tt.class, 60, 2, 77
		if diff := cmp.Diff(asJSON(t, tt.want), asJSON(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestCPUsOfDedicatedWork: CPUs are taken if a user named them for dedicated work or the ledger has them for it, with
// their idle siblings.
func TestCPUsOfDedicatedWork(t *testing.T) {
	h := host(t)
	named := func(id workload.ID, exact bool, class workload.Class, cpu topology.CPUID) {
		h.Admissions[id] = Admission{Exact: exact, Spec: workload.Spec{Class: class}, Placement: home(id, class, 0, cpu)}
	}
	named("pid:1", true, workload.Dedicated, 1)
	named("pid:2", true, workload.Shared, 2)
	named("pid:3", false, workload.Dedicated, 3)
	named("pid:4", true, workload.Dedicated, 4)
	if got := h.ExactCPUs().String(); got != "1,4" {
		t.Errorf("named: %s", got)
	}
	idle := home("/c", workload.Dedicated, 1, 10)
	idle.Idle = topology.CPUs(11)
	h.Plan.Placements = []workload.Placement{home("/a", workload.Dedicated, 1, 8), home("/b", workload.Shared, 1, 9), idle}
	for except, want := range map[workload.ID]string{"": "8,10-11", "/a": "10-11", "/b": "8,10-11", "/c": "8"} {
		if got := h.DedicatedCPUs(except).String(); got != want {
			t.Errorf("except %q: %s, want %s", except, got, want)
		}
	}
}

// TestKeepClearOfEachHold: a sound hold stays in the ledger; of an unsound one only the memory stays, and its CPUs
// are reserved.
func TestKeepClearOfEachHold(t *testing.T) {
	hold := func(id workload.ID, class workload.Class, cpus ...topology.CPUID) workload.Placement {
		p := home(id, class, 0, cpus...)
		if class == workload.Dedicated {
			p.Pins = cpus
		}
		return p
	}
	idle := hold("hold:a", workload.Dedicated, 3)
	idle.Idle = topology.CPUs(4)
	for _, tt := range []struct {
		name     string
		holds    []workload.Placement
		fixed    bool // the first is where its manager put the workload
		moves    bool // as fixed, and the manager's choice is not final
		reserved string
		ledger   string
	}{
		{name: "a good one", holds: []workload.Placement{hold("hold:a", workload.Dedicated, 3)}, reserved: "2", ledger: "hold:a@3/0 "},
		{name: "on a reserved CPU", holds: []workload.Placement{hold("hold:a", workload.Dedicated, 2)}, reserved: "2", ledger: "hold:a@/0 "},
		{name: "on a reserved CPU and another", holds: []workload.Placement{hold("hold:a", workload.Dedicated, 2, 3)}, reserved: "2-3", ledger: "hold:a@/0 "},
		{name: "on a CPU that is kept idle", holds: []workload.Placement{idle, hold("hold:b", workload.Dedicated, 4)}, reserved: "2", ledger: "hold:a@3/0 hold:b@/0 "},
		{name: "twice", holds: []workload.Placement{hold("hold:a", workload.Dedicated, 3, 4), hold("hold:b", workload.Dedicated, 4, 5)}, reserved: "2,5", ledger: "hold:a@3-4/0 hold:b@/0 "},
		{name: "shared", holds: []workload.Placement{hold("hold:a", workload.Shared, 2)}, reserved: "2", ledger: "hold:a@2/0 "},
		{name: "no CPUs", holds: []workload.Placement{hold("hold:a", workload.Dedicated)}, reserved: "2", ledger: "hold:a@/0 "},
		{name: "fixed, and held again", holds: []workload.Placement{hold("/vm", workload.Dedicated, 3), hold("hold:b", workload.Dedicated, 3)}, fixed: true, reserved: "2", ledger: "/vm@3/0 hold:b@/0 "},
		{name: "not fixed, and held", holds: []workload.Placement{hold("/vm", workload.Dedicated, 3), hold("hold:b", workload.Dedicated, 3)}, moves: true, reserved: "2", ledger: "/vm@3/0 hold:b@3/0 "},
	} {
		h := host(t)
		h.Facts.Policy.Reserved = topology.CPUs(2)
		h.Facts.Placements = tt.holds
		c := workload.Claim{Holds: tt.holds}
		if tt.fixed || tt.moves {
			c = workload.Claim{Home: &tt.holds[0], Fixed: tt.fixed, Holds: tt.holds[1:]}
		}
		h.KeepClear(map[workload.ID]*workload.Claim{"/vm": &c, "/fixed": {Fixed: true}})
		if got := h.Facts.Policy.Reserved.String(); got != tt.reserved {
			t.Errorf("%s: reserved %s, want %s", tt.name, got, tt.reserved)
		}
		if got := homesOf(h.Facts.Placements); got != tt.ledger {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.ledger)
		}
	}
	// An unsound hold without memory leaves the ledger.
	h := host(t)
	bare := hold("hold:a", workload.Dedicated, 2)
	bare.Memory = nil
	h.Facts.Policy.Reserved = topology.CPUs(2)
	h.Facts.Placements = []workload.Placement{bare, hold("/b", workload.Shared, 1)}
	h.KeepClear(map[workload.ID]*workload.Claim{"/vm": {Holds: []workload.Placement{bare}}})
	if got := homesOf(h.Facts.Placements); got != "/b@1/0 " {
		t.Errorf("%q", got)
	}
}

// TestKeepClearOfNamedCPUs: CPUs that a user named for dedicated work are reserved, unless the ledger has them.
func TestKeepClearOfNamedCPUs(t *testing.T) {
	h := host(t)
	h.Admissions["pid:7"] = Admission{Exact: true, Spec: workload.Spec{Class: workload.Dedicated}, Placement: home("pid:7", workload.Dedicated, 0, 5, 6)}
	h.Plan.Placements = []workload.Placement{home("/a", workload.Dedicated, 0, 6)}
	h.KeepClear(nil)
	if got := h.Facts.Policy.Reserved.String(); got != "5" {
		t.Errorf("reserved %s", got)
	}
}
