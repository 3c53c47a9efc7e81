package guest

import (
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

func TestReadWishesErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"exact_nodes: 5", "exact_nodes: 5; want 0 to as many as there are vCPUs"},
		{"exact_nodes: 2, max_nodes: 2", "exact_nodes: want no max_nodes"},
		{"only_nodes: x", "want a list such as 0-1,4"},
		{"realtime: 4, class: dedicated", `realtime: "4"; want some of vCPUs 0-3`},
		{"realtime: 1", `realtime: "1"; want vCPUs that have a CPU of their own`},
		{"realtime: 0, class: mixed, dedicated_vcpus: 1-3", `realtime: "0"; want vCPUs that have a CPU of their own`},
		{"realtime: 0-3, class: dedicated", "the emulator shares their CPUs and would starve"},
		{"near: {devise: eth0}", "near: {devise: eth0}; want a device, or {device: NAME}"},
		{"near: [{device: eth0, policy: must}]", "with policy: required, socket or preferred"},
		{"near: eth0, class: batch", "near: a batch guest has no home"},
		{"network_peak: 2MiB", "want a network limit, and a peak above it"},
		{"network: 4MiB, network_peak: 2MiB", "want a network limit, and a peak above it"},
		{"disk: {burst_iops: 5}", "burst_iops: want a limit"},
		{"disk: {iops: 5, burst_iops: 4}", "a burst that is no lower"},
		{"disk: {rate: 5MiB, burst_rate: 4MiB}", "a burst that is no lower"},
		{"disk: {rate: 5MiB, burst_seconds: 4}", "burst_seconds: 4; want 0 to 3600, with burst_iops or burst_rate"},
	} {
		_, err := ReadCatalogue(strings.NewReader("flavors: [{name: a, vcpus: 4, memory: 4GiB, "+tt.text+"}]"), "f.yaml")
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s:\n got %v\nwant %s, on one line", tt.text, err, tt.want)
		}
	}
	for _, good := range []string{"realtime: 1-3, class: dedicated", "realtime: 0-3, class: dedicated, emulator: isolate", "realtime: 1, class: mixed, dedicated_vcpus: 1-3",
		"network: 1MiB, network_peak: 2MiB, network_burst: 1MiB, disk: {iops: 5, burst_iops: 9, rate: 1MiB, burst_rate: 2MiB, burst_seconds: 60}"} {
		if _, err := ReadCatalogue(strings.NewReader("flavors: [{name: a, vcpus: 4, memory: 4GiB, "+good+"}]"), "f.yaml"); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// Exactly N nodes: a guest that one node could hold is on two, in equal parts, and one that
// finds no such set is refused.
func TestExactNodes(t *testing.T) {
	for _, class := range []workload.Class{workload.Dedicated, workload.Shared} {
		f := Flavor{Name: "f", Class: class, VCPUs: 4, Memory: 4 << 20, ExactNodes: 2, SMT: workload.SMTPrefer, Emulator: Share, Importance: 50, Queues: 1}
		r := room(t, eight())
		h, d := r.Place(&Order{Flavor: f, Name: "g"})
		on0 := workload.On(h.Placement.Memory, topology.Nodes(0))
		for _, p := range h.Apart {
			on0 += workload.On(p.Memory, topology.Nodes(0))
		}
		if d.Outcome != plan.Placed || h.Placement.Home.Len() != 2 || on0 != 2<<20 || !slices.ContainsFunc(d.Reasons, func(r words.Reason) bool { return r.Code == words.SplitOrdered }) {
			t.Errorf("%s: %v %+v", class, d.Reasons, h.Placement)
		}
		if class == workload.Dedicated && h.Placement.CPUs.Overlap(CPUsOf(eight().Host, 0)) != 2 {
			t.Errorf("CPUs %v", h.Placement.CPUs)
		}
		r.Commit(h)
		g := Guest{Name: "g", Spec: (&Order{Flavor: f, Name: "g"}).Spec(), Home: h, Placed: true, Emulator: Share}
		if _, d := r.Move(&g, topology.Nodes(1)); d.Outcome != plan.Refused {
			t.Errorf("%s: moved to one node: %v", class, d.Reasons)
		}
		f.ExactNodes = 3
		if _, d := r.Place(&Order{Flavor: f, Name: "h"}); d.Outcome != plan.Refused || d.Reasons[0].Code != words.MustFitExactly {
			t.Errorf("%s: on three of two nodes: %v", class, d.Reasons)
		}
	}
}

// Only these nodes, for good: a guest is not placed or moved elsewhere.
func TestOnlyNodes(t *testing.T) {
	f := Flavor{Name: "f", Class: workload.Shared, VCPUs: 4, Memory: 4 << 20, OnlyNodes: topology.Nodes(1), SMT: workload.SMTPrefer, Emulator: Share, Importance: 50, Queues: 1}
	r := room(t, eight())
	if _, d := r.Place(&Order{Flavor: f, Name: "g", Nodes: topology.Nodes(0)}); d.Outcome != plan.Refused || d.Reasons[0].String() != "It was ordered onto node 0, but may use only node 1." {
		t.Errorf("elsewhere: %v", d.Reasons)
	}
	o := Order{Flavor: f, Name: "g"}
	h, d := r.Place(&o)
	if d.Outcome != plan.Placed || h.Placement.Home.String() != "1" || d.Reasons[0].Code != words.OnlyNodeAllowed {
		t.Fatalf("%v", d.Reasons)
	}
	r.Commit(h)
	g := Guest{Name: "g", Spec: o.Spec(), OnlyNodes: topology.Nodes(1), Home: h, Placed: true, Emulator: Share}
	if _, d := r.Move(&g, topology.Nodes(0)); d.Outcome != plan.Refused || d.Reasons[0].Code != words.NodesApart {
		t.Errorf("moved away: %v", d.Reasons)
	}
	if _, d := r.Move(&g, topology.NodeSet{}); d.Outcome != plan.Kept {
		t.Errorf("moved: %v", d.Reasons)
	}
}

// smt: require means SMT siblings, and there are none without SMT.
func TestRequireWithoutSMT(t *testing.T) {
	h, err := topology.FromSynthetic("node:2(memory=16GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	f := Flavor{Name: "f", Class: workload.Dedicated, VCPUs: 2, Memory: 1 << 20, SMT: workload.SMTRequire, Emulator: Share, Importance: 50, Queues: 1}
	if _, d := room(t, plan.State{Host: h, Policy: plan.DefaultPolicy()}).Place(&Order{Flavor: f, Name: "g"}); d.Outcome != plan.Refused || d.Reasons[0].Code != words.NoSMT {
		t.Errorf("%v", d.Reasons)
	}
	f.SMT = workload.SMTIsolate
	if _, d := room(t, plan.State{Host: h, Policy: plan.DefaultPolicy()}).Place(&Order{Flavor: f, Name: "g"}); d.Outcome != plan.Placed {
		t.Errorf("%v", d.Reasons)
	}
}

// Memory is promised more than once where all work is shared, with a warning, and huge pages
// never are.
func TestMemoryOvercommit(t *testing.T) {
	st := eight()
	st.Policy.Split, st.Policy.MemoryOvercommit = true, 1.5
	f := Flavor{Name: "f", Class: workload.Shared, VCPUs: 1, Memory: 2 << 20, SMT: workload.SMTPrefer, Emulator: Share, Importance: 50, Queues: 1}
	once := st
	once.Policy.MemoryOvercommit = 1
	a, b := room(t, once).Capacity(Catalogue{f}, false)[0].Now, room(t, st).Capacity(Catalogue{f}, false)[0].Now
	if a == 0 || b < a*14/10 || b > a*16/10 {
		t.Errorf("%d fit, %d when memory is promised 1.5 times", a, b)
	}
	r, warned := room(t, st), 0
	for i := range b {
		h, d := r.Place(&Order{Flavor: f, Name: string(rune('a' + i))})
		if d.Outcome != plan.Placed {
			t.Fatal(d.Reasons)
		}
		if d.Reasons[len(d.Reasons)-1].Code == words.MemoryPromised {
			warned++
		}
		r.Commit(h)
	}
	nodes, _, _ := plan.Overpromised(st, r.Placements())
	if bad := plan.Check(st, r.Placements()); len(bad) > 0 || nodes.Empty() || warned == 0 || warned > b-a+1 {
		t.Errorf("%v, nodes %v, warned %d times", bad, nodes, warned)
	}
	f.HugePage = 2048
	if x, y := room(t, once).Capacity(Catalogue{f}, false)[0].Now, room(t, st).Capacity(Catalogue{f}, false)[0].Now; x != y || x == 0 {
		t.Errorf("in huge pages %d fit, and %d", x, y)
	}
	st.Policy.Dedicated = topology.CPUs(0)
	f.HugePage = 0
	if c := room(t, st).MemoryRatio(); c != 1 {
		t.Errorf("beside dedicated work it is promised %v times", c)
	}
}

// What a guest has to be near to holds for guests that are placed whole and cell by cell, where one
// of the cells has it, and for moves.
func TestRequiredNear(t *testing.T) {
	st := eight()
	st.Host.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, Node: 1}, {Name: "eth1", Kind: topology.NIC, Node: 0}}
	need := func(names ...string) (near []workload.Near) {
		for _, name := range names {
			near = append(near, workload.Near{Device: name, Required: true})
		}
		return near
	}
	cell := func(vcpus ...int) Cell { return Cell{VCPUs: topology.SetOf(vcpus...), Memory: 1 << 20} }
	f := Flavor{Name: "f", Class: workload.Dedicated, VCPUs: 2, Memory: 2 << 20, SMT: workload.SMTPrefer, Emulator: Share, Importance: 50, Queues: 1}
	for _, tt := range []struct {
		name  string
		cells []Cell
		near  []workload.Near
		nodes topology.NodeSet
		home  string
		why   words.Code
	}{
		{"whole", nil, need("eth0"), topology.NodeSet{}, "1", words.RequiredOn},
		{"whole, elsewhere", nil, need("eth0"), topology.Nodes(0), "", words.RequiredElsewhere},
		{"two cells, one of them there", []Cell{cell(0), cell(1)}, need("eth0", "eth1"), topology.NodeSet{}, "0-1", ""},
		{"a device that is not there", []Cell{cell(0), cell(1)}, need("eth9"), topology.NodeSet{}, "", words.RequiredNoDevice},
	} {
		f.Cells, f.Near = tt.cells, tt.near
		r := room(t, st)
		h, d := r.Place(&Order{Flavor: f, Name: "g", Nodes: tt.nodes})
		if got := h.Nodes().String(); got != tt.home || tt.why != "" && !wordstest.Has(d.Reasons, words.Reason{Code: tt.why}) {
			t.Errorf("%s: home %q, want %q: %v", tt.name, got, tt.home, d.Reasons)
		}
		if d.Outcome != plan.Placed || tt.cells != nil {
			continue
		}
		r.Commit(h)
		g := Guest{Name: "g", Spec: (&Order{Flavor: f, Name: "g"}).Spec(), Home: h, Placed: true, Emulator: Share}
		if _, d := r.Move(&g, topology.Nodes(0)); d.Outcome != plan.Refused || !wordstest.Has(d.Reasons, words.Reason{Code: words.RequiredElsewhere}) {
			t.Errorf("%s: moved away: %v", tt.name, d.Reasons)
		}
	}
}
