package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// What has to be near something is where that is, or is refused with the reason; a wider one has
// it among its nodes.
func TestRequired(t *testing.T) {
	st := nearHost(t, "package:2 node:1(memory=16GiB) core:8")
	st.Host.Devices = append(st.Host.Devices,
		topology.Device{Name: "eth1", Kind: topology.NIC, Node: st.Host.Nodes[1].ID},
		topology.Device{Name: "lost0", Kind: topology.NIC, Node: topology.None})
	full := NewLedger(st).Place(Request{Spec: workload.Spec{ID: "full", Class: workload.Dedicated, CPUs: 6, Memory: gib, Nodes: topology.Nodes(0)}}).Placement
	with := st
	with.Placements = []plan.Placement{full}
	need := func(names ...string) (near []workload.Near) {
		for _, name := range names {
			near = append(near, workload.Near{Device: name, Required: true})
		}
		return near
	}
	for _, tt := range []struct {
		name    string
		st      plan.State
		class   workload.Class
		cpus    int
		near    []workload.Near
		nodes   topology.NodeSet
		home    string // "" is refused
		because words.Code
	}{
		{"on the device's node", st, workload.Dedicated, 4, need("eth1"), topology.NodeSet{}, "1", words.RequiredOn},
		{"shared work as well", st, workload.Shared, 4, need("eth1"), topology.NodeSet{}, "1", words.RequiredOn},
		{"batch work too", st, workload.Batch, 4, need("eth1"), topology.NodeSet{}, "1", ""},
		{"no room there", with, workload.Dedicated, 4, need("eth0"), topology.NodeSet{}, "", words.WithPreferred},
		{"in numbers", with, workload.Dedicated, 4, need("eth0"), topology.NodeSet{}, "", words.NodesTooSmall},
		{"wider than a node", st, workload.Dedicated, 12, need("eth1"), topology.NodeSet{}, "0-1", words.RequiredOn},
		{"other nodes named", st, workload.Shared, 4, need("eth1"), topology.Nodes(0), "", words.RequiredElsewhere},
		{"two that lie apart", st, workload.Shared, 4, need("eth0", "eth1"), topology.NodeSet{}, "", words.RequiredApart},
		{"two that lie apart, wider than a node", st, workload.Dedicated, 12, need("eth0", "eth1"), topology.NodeSet{}, "0-1", words.RequiredOn},
		{"no such device", st, workload.Shared, 4, need("eth9"), topology.NodeSet{}, "", words.RequiredNoDevice},
		{"nobody knows where", st, workload.Shared, 4, need("lost0"), topology.NodeSet{}, "", words.RequiredNowhere},
		{"another workload", with, workload.Shared, 1, []workload.Near{{Workload: "full", Required: true}}, topology.NodeSet{}, "0", words.RequiredOn},
		{"a process by where it runs", st, workload.Shared, 1, []workload.Near{{Process: "spdk_tgt", Nodes: topology.Nodes(1), Required: true}}, topology.NodeSet{}, "1", words.RequiredOn},
		{"one that does not run", st, workload.Shared, 1, []workload.Near{{Service: "ovs", Required: true}}, topology.NodeSet{}, "", words.RequiredNotRunning},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Place(tt.st, Request{Spec: workload.Spec{ID: "w", Class: tt.class, CPUs: tt.cpus, Memory: gib, Near: tt.near, Nodes: tt.nodes}, Must: tt.cpus > 8})
			if r.Placement.Home.String() != tt.home || tt.because != "" && !wordstest.Has(r.Decision.Reasons, words.Reason{Code: tt.because}) {
				t.Errorf("home %q, want %q: %v", r.Placement.Home, tt.home, r.Decision.Reasons)
			}
		})
	}
}

// On any host: what is placed has what it requires at its home, on one node where one node
// could hold it; and what wishes the same without requiring it and comes to such a home is never
// refused when it requires it.
func TestRequiredHolds(t *testing.T) {
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(6).Draw(t, "state")
		node := rapid.SampledFrom(st.Host.Nodes).Draw(t, "the card's").ID
		st.Host.Devices = append(slices.Clone(st.Host.Devices), topology.Device{Name: "card", Kind: topology.NIC, Node: node})
		l := NewLedger(st)
		for i := range rapid.IntRange(0, 6).Draw(t, "held") {
			if r := l.Place(Request{Spec: plantest.Spec(workload.ID(string(rune('a'+i)))).Draw(t, "spec"), Must: true}); r.Placed() {
				l.Commit(r.Placement)
			}
		}
		spec := plantest.Spec("w").Draw(t, "w")
		if spec.Class == workload.Batch {
			return
		}
		spec.Near = []workload.Near{{Device: "card", Weight: 100}}
		wish := l.Place(Request{Spec: spec, Must: true})
		spec.Near[0].Required = true
		need := l.Place(Request{Spec: spec, Must: true})
		w := newWant(l, &Request{Spec: spec})
		vcpus, mem := w.everRoom(l, l.index(node))
		narrow := vcpus >= w.vcpus && mem >= w.memory && w.MinNodes <= 1
		if need.Placed() {
			if home := need.Placement.Home; !home.Has(node) || narrow && home.Len() > 1 && !w.Nodes.Equal(home) {
				t.Fatalf("on %v, and the card is on node %d: %v", home, node, need.Decision.Reasons)
			}
		}
		if shares := wish.Placement.Memory; wish.Placed() && !need.Placed() && len(l.nodes) <= exactNodes {
			at := wish.Placement.Home
			onCard := !wish.Placement.CPUs.Intersect(st.Host.Nodes[slices.IndexFunc(st.Host.Nodes, func(n topology.Node) bool { return n.ID == node })].CPUs).Empty()
			if onCard && (at.Len() == 1 || !narrow) && !wordstest.Has(need.Decision.Reasons, words.Reason{Code: words.StarvesBatch}) {
				t.Fatalf("refused, and as a wish it is on %v (%v): %v", at, shares, need.Decision.Reasons)
			}
			tried++
		}
	})
	if tried == 0 {
		t.Error("no refusal: the test tests nothing")
	}
}
