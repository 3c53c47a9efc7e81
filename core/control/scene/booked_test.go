package scene

import (
	"fmt"
	"testing"

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

// TestWithoutClaims: without a claim the ledger is as it was.
func TestWithoutClaims(t *testing.T) {
	by, _ := basis()
	s := &Scene{Bindings: map[workload.ID]Binding{"vm:a": {}}}
	ledger := []workload.Placement{home("a", workload.Shared, 0, 0)}
	if got := s.WithClaims(by, ledger, host()); len(got) != 1 || &got[0] != &ledger[0] || len(s.Bindings) != 0 {
		t.Errorf("%s; %+v", homesOf(got), s.Bindings)
	}
}
