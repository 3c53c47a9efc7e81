package homes

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func home(id workload.ID, class workload.Class, node topology.NodeID, cpus ...topology.CPUID) workload.Placement {
	return workload.Placement{
		Workload: id, Class: class, VCPUs: len(cpus), Home: topology.Nodes(node), CPUs: topology.CPUs(cpus...),
		Memory: []workload.NodeMemory{{Node: node, KiB: 1 << 20}},
	}
}

// homesOf shows placements in a line.
func homesOf(all []workload.Placement) (out string) {
	for i := range all {
		out += fmt.Sprintf("%s@%s/%s ", all[i].Workload, all[i].CPUs, all[i].Home)
	}
	return out
}

// TestWithAdmissions: a home that was given counts until a scan must have seen its workload.
func TestWithAdmissions(t *testing.T) {
	h := host(t)
	give := func(id workload.ID, a Admission) {
		a.Placement = home(id, workload.Shared, 0, 0)
		h.Admissions[id] = a
	}
	started := workload.Process{PID: 7, Start: 7}
	give("hold", Admission{})
	give("old", Admission{Process: started, Scan: 4})
	give("pid:7", Admission{Process: started, Scan: 5})
	give("pid:8", Admission{Process: started, Scan: 6})
	give("exact", Admission{Exact: true})
	ledger := []workload.Placement{home("pid:8", workload.Shared, 1, 4)}
	got := homesOf(h.WithAdmissions(ledger, 5))
	if want := "hold@0/0 pid:7@0/0 pid:8@4/1 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	clear(h.Admissions)
	if same := h.WithAdmissions(ledger, 5); &same[0] != &ledger[0] {
		t.Error("copied for nothing")
	}
}

// TestMerge: the changed ones win, and all rise by workload.
func TestMerge(t *testing.T) {
	got := homesOf(Merge(
		[]workload.Placement{home("a", workload.Shared, 0, 0), home("c", workload.Shared, 0, 0)},
		[]workload.Placement{home("c", workload.Shared, 1, 4), home("b", workload.Shared, 1, 5)}))
	if want := "a@0/0 b@5/1 c@4/1 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestKeepClear: CPUs that claimed workloads hold where homenode would not place them are reserved.
func TestKeepClear(t *testing.T) {
	fixed := home("vm:f", workload.Dedicated, 0, 0)
	fixed.Pins = []topology.CPUID{0}
	hold := func(id workload.ID, cpus ...topology.CPUID) workload.Placement {
		p := home(id, workload.Dedicated, 0, cpus...)
		p.Pins = cpus
		return p
	}
	claims := map[workload.ID]*workload.Claim{
		"vm:f": {Fixed: true, Home: &fixed, Holds: []workload.Placement{hold("hold:same", 0)}},
		"vm:g": {Holds: []workload.Placement{hold("hold:reserved", 2), hold("hold:good", 3), home("hold:shared", workload.Shared, 0, 1)}},
	}
	bare := hold("hold:same", 0)
	bare.Memory = nil
	claims["vm:h"] = &workload.Claim{Holds: []workload.Placement{hold("hold:gone", 3)}} // of which nothing is in the ledger
	h := host(t)
	h.Facts = plan.State{
		Host: h.Facts.Host, Policy: plan.Policy{Reserved: topology.CPUs(2)},
		Placements: []workload.Placement{fixed, hold("hold:good", 3), hold("hold:reserved", 2), bare},
	}
	byHand := home("pid:7", workload.Dedicated, 0, 5, 99) // of which CPU 99 is not online
	h.Admissions["pid:7"] = Admission{Exact: true, Spec: workload.Spec{Class: workload.Dedicated}, Placement: byHand}
	h.KeepClear(claims)
	if got := h.Facts.Policy.Reserved.String(); got != "2,5" { // CPU 0 is kept for vm:f
		t.Errorf("reserved %s", got)
	}
	want := "vm:f@0/0 hold:good@3/0 hold:reserved@/0 "
	if diff := cmp.Diff(want, homesOf(h.Facts.Placements)); diff != "" {
		t.Error(diff)
	}
	if p := &h.Facts.Placements[2]; p.VCPUs != 0 || p.Pins != nil || len(p.Memory) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestNotLeft: no other work gets the CPUs that dedicated work still runs on until a scan has seen that it left
// them, whatever its home is by then.
func TestNotLeft(t *testing.T) {
	h := host(t)
	moved := home("pid:7", workload.Dedicated, 1, 8, 9)
	moved.Pins = moved.CPUs.Slice()
	h.Plan.Placements = []workload.Placement{moved}
	seen := &place.Subject{
		Spec:        workload.Spec{ID: "pid:7", Class: workload.Dedicated, CPUs: 2, Memory: 4 << 10, Given: true},
		Observation: workload.Observation{ID: "pid:7", CPUs: topology.CPUs(0, 1)},
	}
	now := at()
	now.Subjects = []*place.Subject{seen}
	onNode0 := func(cpus int) Result {
		h.DropLedger()
		return h.Place(now, asked(func(in *Placing) {
			in.As.Class, in.As.CPUs, in.As.Nodes = workload.Dedicated, cpus, topology.Nodes(0)
		}))
	}
	for _, tt := range []struct {
		name string
		has  topology.CPUSet
		most int // CPUs of node 0 for others
	}{
		{"it runs where it was", topology.CPUs(0, 1), 6},
		{"it has left one CPU", topology.CPUs(1, 8), 7},
		{"it is home", topology.CPUs(8, 9), 8},
		{"it floats still", h.Facts.Host.Online, 8},
	} {
		seen.Observation.CPUs = tt.has
		got := onNode0(tt.most)
		if got.Refused != nil || got.Placed.Placement.CPUs.Len() != tt.most {
			t.Errorf("%s: %d CPUs: %+v", tt.name, tt.most, got.Refused)
			continue
		}
		if both := got.Placed.Placement.CPUs.Intersect(tt.has); tt.most < 8 && !both.Empty() {
			t.Errorf("%s: both have CPUs %v", tt.name, both)
		}
		if tt.most < 8 && onNode0(tt.most+1).Refused == nil {
			t.Errorf("%s: %d CPUs are given", tt.name, tt.most+1)
		}
	}

	// CPUs that other work was given are that work's, and not reserved as well.
	other := home("pid:8", workload.Dedicated, 0, 0, 1)
	other.Pins = other.CPUs.Slice()
	h.Plan.Placements = append(h.Plan.Placements, other)
	seen.Observation.CPUs = topology.CPUs(0, 1)
	if r := onNode0(6); r.Refused != nil {
		t.Errorf("other work has them: %+v", r.Refused)
	}
}
