package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What was learned never weighs as much as sharing a core or moving memory, however
// far and however much it is; what a person named may.
func TestLearnedHasALowCeiling(t *testing.T) {
	if learnedMost >= overCore || learnedCeiling >= moveWeight {
		t.Fatalf("the ceilings %v and %v are not below %v and %v", learnedMost, learnedCeiling, overCore, moveWeight)
	}
	st := nearHost(t, "package:4 node:1(memory=16GiB) core:4")
	l := NewLedger(st)
	many := []workload.Near{{Nodes: topology.Nodes(0), Learned: true, Weight: 1}, {Device: "eth0", Learned: true, Weight: 1}}
	for _, vcpus := range []int{1, 2, 3, 8, 100} {
		pull, _ := l.pull(many, firstCeiling(vcpus))
		for i, x := range pull {
			if want := map[bool]float64{true: 0, false: min(learnedCeiling, learnedMost/float64(vcpus))}[i == 0]; x != want {
				t.Errorf("%d vCPUs, node %d: %v, want %v", vcpus, i, x, want)
			}
		}
	}
	// Of what runs the loss is known: it is that which stays below a vCPU that shares a core.
	for _, waits := range []float64{0, 1e-6, 0.1, 0.7, 3, 20} {
		for i, x := range l.Pull(many, waits) {
			if most := max(learnedMost, learnedCeiling*waits); x*waits > most+1e-9 || x*waits > overCore && x > learnedCeiling || i == 0 && x != 0 {
				t.Errorf("waiting %v CPUs, node %d: %v is %v CPUs", waits, i, x, x*waits)
			}
		}
	}
	told := l.Pull([]workload.Near{{Device: "eth0", Weight: 10}}, 0)
	if told[1] != nearCeiling {
		t.Errorf("told: %v", told)
	}
	both := l.Pull(append(many, workload.Near{Device: "eth0", Weight: 10}), 0)
	if both[1] != nearCeiling+learnedCeiling {
		t.Errorf("both: %v", both)
	}
}

func nearHost(t testing.TB, synthetic string) plan.State {
	h, err := topology.FromSynthetic(synthetic)
	if err != nil {
		t.Fatal(err)
	}
	h.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: "0000:00:01.0", Node: h.Nodes[0].ID}}
	return plan.State{Host: h, Policy: plan.DefaultPolicy()}
}

// With room a first home is on the node of the card; what runs elsewhere with its
// memory is not brought there for something learned.
func TestLearnedChoosesAmongEquals(t *testing.T) {
	st := nearHost(t, "package:2 node:1(memory=16GiB) core:8")
	near := []workload.Near{{Device: "eth0", Learned: true, Weight: 1}}
	spec := workload.Spec{ID: "w", Class: workload.Shared, CPUs: 4, Memory: 1 << 20, Near: near}
	other := spec
	other.ID, other.Near = "other", nil
	first := Place(st, Request{Spec: other})
	if !first.Placed() || first.Placement.Home.Has(0) {
		t.Fatalf("without a wish, home %v: nodes with devices are kept for those who need them", first.Placement.Home)
	}
	if r := Place(st, Request{Spec: spec}); !r.Placed() || !r.Placement.Home.Equal(topology.Nodes(0)) {
		t.Errorf("home %v", r.Placement.Home)
	}
	at1 := Request{Spec: spec, Memory: []workload.NodeMemory{{Node: 1, KiB: 1 << 20}}, RanOn: []workload.NodeShare{{Node: 1, Share: 1}}}
	if r := Place(st, at1); !r.Placed() || !r.Placement.Home.Equal(topology.Nodes(1)) {
		t.Errorf("what lies on node 1 goes to %v", r.Placement.Home)
	}
	told := at1
	told.Spec.Near = []workload.Near{{Device: "eth0"}}
	if r := Place(st, told); !r.Placed() || !r.Placement.Home.Equal(topology.Nodes(0)) {
		t.Errorf("what was told to be near goes to %v", r.Placement.Home)
	}
}

// Of seven threads on two nodes of four cores, four are of one pod with GPUs on both nodes, which is at
// home on the first until its processes open theirs. A pod that is given a GPU of the first node begins
// there, whatever it matters: it shares cores for a while, and is near its GPU for good. It waits for no CPU there.
func TestGivenGPUOutweighsSharedCores(t *testing.T) {
	uncounted, _ := nearness.Learned(&workload.Observation{}, &workload.Link{Device: "gpu1"}, -1)
	for _, tt := range []struct {
		name       string
		train      int
		importance int
		distance   int
		near       []workload.Near
		home       topology.NodeID
	}{
		{"given", 4, 50, 21, []workload.Near{nearness.Given("gpu1", 1)}, 0},
		{"given to what matters most", 4, 100, 21, []workload.Near{nearness.Given("gpu1", 1)}, 0},
		{"a near node", 4, 50, 16, []workload.Near{nearness.Given("gpu1", 1)}, 0},
		{"two of the same node", 4, 50, 21, []workload.Near{nearness.Given("gpu0", 2), nearness.Given("gpu1", 2)}, 0},
		{"found in use", 4, 50, 21, []workload.Near{uncounted}, 1},
		{"no CPU is left", 7, 50, 21, []workload.Near{nearness.Given("gpu1", 1)}, 1},
	} {
		st := nearHost(t, "package:2 node:1(memory=16GiB) core:4 pu:2")
		for i := range 4 {
			st.Host.Devices = append(st.Host.Devices, topology.Device{
				Kind: topology.GPU, PCI: fmt.Sprintf("0000:0%d:00.0", i+2), GPU: fmt.Sprintf("gpu%d", i), Node: topology.NodeID(i / 2)})
		}
		st.Host.Distances = topology.Matrix{{10, tt.distance}, {tt.distance, 10}}
		at := func(id workload.ID, cpus int, node topology.NodeID) {
			p := Place(st, Request{Spec: workload.Spec{ID: id, Class: workload.Shared, Importance: 50, CPUs: cpus, Nodes: topology.Nodes(node)}})
			st.Placements = append(st.Placements, p.Placement)
		}
		at("gpu0", 1, 1)
		at("gpu1", 1, 1)
		at("gpu2", 1, 1)
		at("gpu3", 1, 0)
		at("train", tt.train, 0)
		spec := workload.Spec{ID: "w", Class: workload.Shared, Importance: tt.importance, CPUs: 1, Memory: 1 << 17, Near: tt.near}
		if r := Place(st, Request{Spec: spec}); !r.Placed() || !r.Placement.Home.Equal(topology.Nodes(tt.home)) {
			t.Errorf("%s: home %v, want %d: %v", tt.name, r.Placement.Home, tt.home, r.Decision.Candidates)
		}
	}
}

// Broadcom's KB 439993: all guests talk to poll threads on one node. However many they
// are, none is put where a core would be shared while another node has cores free.
func TestGuestsDoNotPileUpAtAPollThread(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes, cores := rapid.IntRange(2, 8).Draw(r, "nodes"), rapid.IntRange(2, 16).Draw(r, "cores")
		st := nearHost(t, fmt.Sprintf("package:%d node:1(memory=1TiB) core:%d pu:2", nodes, cores))
		at := topology.NodeID(rapid.IntRange(0, nodes-1).Draw(r, "poll thread on"))
		free := make([]int, nodes)
		for i := range free {
			free[i] = cores
		}
		for k := 0; ; k++ {
			vcpus := rapid.IntRange(1, cores).Draw(r, "vcpus")
			room := false
			for _, f := range free {
				room = room || f >= vcpus
			}
			if !room || k > 64 {
				break
			}
			spec := workload.Spec{ID: workload.ID(fmt.Sprintf("g%02d", k)), Class: workload.Shared, CPUs: vcpus, Memory: 1 << 20, MaxNodes: 1,
				Near: []workload.Near{{Nodes: topology.Nodes(at), Learned: true, Weight: rapid.Float64Range(0.01, 1).Draw(r, "weight")}}}
			got := Place(st, Request{Spec: spec})
			if !got.Placed() {
				r.Fatalf("%s: %v", spec.ID, got.Decision.Reasons)
			}
			home := got.Placement.Home.Min()
			if free[home] -= vcpus; free[home] < 0 {
				r.Fatalf("%s with %d vCPUs goes to node %d, which lacks %d cores; free %v, poll thread on %d", spec.ID, vcpus, home, -free[home], free, at)
			}
			st.Placements = append(st.Placements, got.Placement)
		}
	})
}

// A helper without a home goes to those that it works for, with its memory, but crowds nobody.
func TestHelperGoesFirst(t *testing.T) {
	if servesCeiling <= moveWeight || servesCeiling >= overCore {
		t.Fatalf("the ceiling %v is not between %v and %v", servesCeiling, moveWeight, overCore)
	}
	st := nearHost(t, "package:2 node:1(memory=16GiB) core:4")
	spec := workload.Spec{ID: "nbd", Class: workload.Shared, CPUs: 1, Memory: 1 << 17,
		Near: []workload.Near{{Workload: "vm:a", Nodes: topology.Nodes(1), Learned: true, Serves: true, Weight: 1}}}
	at0 := Request{Spec: spec, Memory: []workload.NodeMemory{{Node: 0, KiB: 1 << 17}}, RanOn: []workload.NodeShare{{Node: 0, Share: 1}}}
	if r := Place(st, at0); !r.Placed() || !r.Placement.Home.Equal(topology.Nodes(1)) {
		t.Errorf("home %v: %v", r.Placement.Home, r.Decision.Reasons)
	}
	full := Place(st, Request{Spec: workload.Spec{ID: "vm:a", Class: workload.Shared, CPUs: 4, Memory: 1 << 20, Nodes: topology.Nodes(1)}})
	st.Placements = append(st.Placements, full.Placement)
	if r := Place(st, at0); !r.Placed() || !r.Placement.Home.Equal(topology.Nodes(0)) {
		t.Errorf("with no core free there, home %v: %v", r.Placement.Home, r.Decision.Reasons)
	}
}
