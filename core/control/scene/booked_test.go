package scene

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func home(id workload.ID, class workload.Class, node topology.NodeID, cpus ...topology.CPUID) workload.Placement {
	return workload.Placement{
		Workload: id, Class: class, VCPUs: len(cpus), Home: topology.Nodes(node), CPUs: topology.CPUs(cpus...),
		Memory: []workload.NodeMemory{{Node: node, KiB: 1 << 20}},
	}
}

// homesOf shows a ledger in a line.
func homesOf(all []workload.Placement) (out string) {
	for i := range all {
		out += fmt.Sprintf("%s@%s/%s ", all[i].Workload, all[i].CPUs, all[i].Home)
	}
	return out
}

// TestWithClaims: what a manager has done counts more than the ledger, unless homenode is changing it.
func TestWithClaims(t *testing.T) {
	const id = workload.ID("vm:a")
	at := func(node topology.NodeID, cpus ...topology.CPUID) workload.Claim {
		h := home(id, workload.Shared, node, cpus...)
		return workload.Claim{
			ID: id, Running: true, Caps: workload.Caps{Rebinds: true}, CPUs: h.CPUs, Mems: h.Home, Home: &h,
		}
	}
	on0 := Binding{topology.CPUs(0, 1), topology.Nodes(0)}
	on1 := Binding{topology.CPUs(4, 5), topology.Nodes(1)}
	alone := words.Because(words.PartitionEmpty)
	next := home(id, workload.Shared, 1, 6, 7)
	for _, tt := range []struct {
		what           string
		claim          workload.Claim
		ledger         []workload.Placement
		was            *Binding
		busy, changing bool
		change         func(*workload.Claim)
		want           string
		bound          Binding
	}{
		{what: "as in the ledger", claim: at(0, 0, 1), ledger: []workload.Placement{home(id, workload.Shared, 0, 0, 1)}, want: "vm:a@0-1/0 ", bound: on0},
		{what: "not in the ledger", claim: at(0, 0, 1), want: "vm:a@0-1/0 ", bound: on0},
		{what: "elsewhere at the first scan", claim: at(1, 4, 5), ledger: []workload.Placement{home(id, workload.Shared, 0, 0, 1)}, want: "vm:a@4-5/1 ", bound: on1},
		{what: "on the way at the first scan", claim: at(0, 0, 1), ledger: []workload.Placement{home(id, workload.Shared, 0, 2, 3)}, want: "vm:a@2-3/0 ", bound: on0},
		{what: "still where it was", claim: at(0, 0, 1), ledger: []workload.Placement{home(id, workload.Shared, 1, 4, 5)}, was: &on0, want: "vm:a@4-5/1 ", bound: on0},
		{what: "come to its home", claim: at(1, 4, 5), ledger: []workload.Placement{home(id, workload.Shared, 1, 4, 5)}, was: &on0, want: "vm:a@4-5/1 ", bound: on1},
		{what: "bound by another program", claim: at(0, 2, 3), ledger: []workload.Placement{home(id, workload.Shared, 1, 4, 5)}, was: &on0, want: "vm:a@2-3/0 ",
			bound: Binding{topology.CPUs(2, 3), topology.Nodes(0)}},
		{what: "bound while homenode moves it", claim: at(0, 2, 3), ledger: []workload.Placement{home(id, workload.Shared, 1, 4, 5)}, was: &on0, busy: true, want: "vm:a@4-5/1 ",
			bound: Binding{topology.CPUs(2, 3), topology.Nodes(0)}},
		{what: "while a user's change goes on", claim: at(0, 2, 3), ledger: []workload.Placement{home(id, workload.Shared, 1, 4, 5)}, was: &on0, changing: true, want: "vm:a@4-5/1 ", bound: on0},
		{what: "a change of what was not seen", claim: at(0, 2, 3), changing: true, want: "vm:a@2-3/0 ", bound: Binding{topology.CPUs(2, 3), topology.Nodes(0)}},
		{what: "off", claim: at(0, 0, 1), ledger: []workload.Placement{home(id, workload.Shared, 0, 0, 1)}, change: func(c *workload.Claim) { c.Running = false }, bound: on0},
		{what: "left alone", claim: at(0, 0, 1), ledger: []workload.Placement{home(id, workload.Shared, 0, 0, 1)}, change: func(c *workload.Claim) { c.Alone = alone }, bound: on0},
		{what: "left alone where it is", claim: at(0, 0, 1), change: func(c *workload.Claim) { c.Alone, c.Fixed = alone, true }, want: "vm:a@0-1/0 ", bound: on0},
		{what: "dedicated", claim: at(0, 0, 1), change: func(c *workload.Claim) { c.Home.Class, c.Running = workload.Dedicated, false }, want: "vm:a@0-1/0 ", bound: on0},
		{what: "bound nowhere", claim: at(0, 0, 1), change: func(c *workload.Claim) { c.Home = nil }, bound: on0},
		{what: "bound nowhere, with a home at the next start", claim: at(0, 0, 1), change: func(c *workload.Claim) {
			c.Home, c.Next = nil, &workload.Next{Home: &next, Ours: true}
		}, want: "vm:a@6-7/1 ", bound: on0},
		{what: "a next start that is not homenode's", claim: at(0, 0, 1), change: func(c *workload.Claim) {
			c.Home, c.Next = nil, &workload.Next{Home: &next}
		}, bound: on0},
		{what: "a next start of what is off", claim: at(0, 0, 1), change: func(c *workload.Claim) {
			c.Running, c.Next = false, &workload.Next{Home: &next, Ours: true}
		}, bound: on0},
		{what: "not rebound", claim: at(0, 0, 1), change: func(c *workload.Claim) { c.Caps.Rebinds = false }},
		{what: "with a hold", claim: at(0, 0, 1), change: func(c *workload.Claim) {
			c.Caps.Rebinds = false
			c.Holds = []workload.Placement{home("vm:a/emulator", workload.Dedicated, 0, 3)}
		}, want: "vm:a/emulator@3/0 "},
	} {
		by, work := basis()
		work.busy[id], work.changing[id] = tt.busy, tt.changing
		if tt.change != nil {
			tt.change(&tt.claim)
		}
		s := &Scene{Claims: map[workload.ID]*workload.Claim{id: &tt.claim}}
		if tt.was != nil {
			s.Bindings = map[workload.ID]Binding{id: *tt.was}
		}
		if got := homesOf(s.WithClaims(by, tt.ledger, host())); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
		if got := s.Bindings[id]; !got.CPUs.Equal(tt.bound.CPUs) || !got.Nodes.Equal(tt.bound.Nodes) {
			t.Errorf("%s: bound %+v, want %+v", tt.what, got, tt.bound)
		}
	}
}

// TestWithAdmissions: a home that was given counts until a scan must have seen its workload.
func TestWithAdmissions(t *testing.T) {
	by, _ := basis()
	s := &Scene{Seen: 5}
	give := func(id workload.ID, a Admission) {
		a.Placement = home(id, workload.Shared, 0, 0)
		by.Admissions[id] = a
	}
	started := workload.Process{PID: 7, Start: 7}
	give("hold", Admission{})
	give("old", Admission{Process: started, Scan: 4})
	give("pid:7", Admission{Process: started, Scan: 5})
	give("pid:8", Admission{Process: started, Scan: 6})
	give("exact", Admission{Exact: true})
	ledger := []workload.Placement{home("pid:8", workload.Shared, 1, 4)}
	got := homesOf(s.WithAdmissions(by, ledger))
	if want := "hold@0/0 pid:7@0/0 pid:8@4/1 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := homesOf(s.WithClaims(by, ledger, host())); got != "hold@0/0 pid:7@0/0 pid:8@4/1 " {
		t.Errorf("without claims: %q", got)
	}
	clear(by.Admissions)
	if same := s.WithAdmissions(by, ledger); &same[0] != &ledger[0] {
		t.Error("copied for nothing")
	}
}

// TestMergePlacements: the changed ones win, and all rise by workload.
func TestMergePlacements(t *testing.T) {
	got := homesOf(MergePlacements(
		[]workload.Placement{home("a", workload.Shared, 0, 0), home("c", workload.Shared, 0, 0)},
		[]workload.Placement{home("c", workload.Shared, 1, 4), home("b", workload.Shared, 1, 5)}))
	if want := "a@0/0 b@5/1 c@4/1 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMemoryNodes: memory belongs on the nodes of the home that have memory, on those booked first.
func TestMemoryNodes(t *testing.T) {
	h := host()
	p := home("a", workload.Shared, 0, 0)
	p.Home = topology.Nodes(0, 1)
	if got := MemoryNodes(h, &p); got.String() != "0" {
		t.Errorf("booked: %s", got)
	}
	p.Memory = nil
	if got := MemoryNodes(h, &p); got.String() != "0-1" {
		t.Errorf("nothing booked: %s", got)
	}
	h.Nodes[0].Memory = 0
	if got := MemoryNodes(h, &p); got.String() != "1" {
		t.Errorf("without memory: %s", got)
	}
	h.AllowedMems = topology.Nodes(0)
	if got := MemoryNodes(h, &p); !got.Empty() {
		t.Errorf("not allowed: %s", got)
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
	s := &Scene{Claims: map[workload.ID]*workload.Claim{
		"vm:f": {Fixed: true, Home: &fixed, Holds: []workload.Placement{hold("hold:same", 0)}},
		"vm:g": {Holds: []workload.Placement{hold("hold:reserved", 2), hold("hold:good", 3), home("hold:shared", workload.Shared, 0, 1)}},
	}}
	bare := hold("hold:same", 0)
	bare.Memory = nil
	s.Claims["vm:h"] = &workload.Claim{Holds: []workload.Placement{hold("hold:gone", 3)}} // of which nothing is in the ledger
	st := plan.State{
		Host: host(), Policy: plan.Policy{Reserved: topology.CPUs(2)},
		Placements: []workload.Placement{fixed, hold("hold:good", 3), hold("hold:reserved", 2), bare},
	}
	s.KeepClear(&st, topology.CPUs(5, 9))
	if got := st.Policy.Reserved.String(); got != "2,5" { // CPU 0 is kept for vm:f, CPU 9 is not online
		t.Errorf("reserved %s", got)
	}
	want := "vm:f@0/0 hold:good@3/0 hold:reserved@/0 "
	if diff := cmp.Diff(want, homesOf(st.Placements)); diff != "" {
		t.Error(diff)
	}
	if p := &st.Placements[2]; p.VCPUs != 0 || p.Pins != nil || len(p.Memory) != 1 {
		t.Errorf("%+v", p)
	}
}
