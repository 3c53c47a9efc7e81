package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// grace draws a host of two nodes with CPUs, 2 with a GPU's memory and, to fill nodes up, ones without anything.
func grace(nodes int) string {
	var b strings.Builder
	for i := range nodes {
		cpus, mem := "-", "0G"
		switch i {
		case 0:
			cpus, mem = "0-71", "480G"
		case 1:
			cpus, mem = "72-143", "480G"
		case 2, 10:
			mem = "186G"
		}
		fmt.Fprintf(&b, "%d %s %s", i, cpus, mem)
		for j := range nodes {
			d := 80
			switch {
			case i == j:
				d = 10
			case i < 2 && j < 2:
				d = 40
			case i >= 2 && j >= 2:
				d = 255
			}
			fmt.Fprintf(&b, " %d", d)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestGPUMemoryIsNotBooked: only a workload that names its node gets a GPU's memory.
func TestGPUMemoryIsNotBooked(t *testing.T) {
	st := onHost(grace(34))
	l := NewLedger(st)
	gpus := topology.Nodes(2, 10)
	placed, booked := 0, topology.KiB(0)
	for i := range 6 {
		r := l.Place(Request{Spec: service(fmt.Sprint("s", i), 8, 200*gib)})
		if !r.Placed() {
			continue
		}
		placed++
		booked += workload.On(r.Placement.Memory, gpus)
		if r.Placement.Home.Intersects(gpus) {
			t.Errorf("s%d: home %v", i, r.Placement.Home)
		}
		l.Commit(r.Placement)
	}
	if placed != 4 || booked != 0 {
		t.Errorf("%d placed, %d GiB of a GPU's memory booked; want 4 and 0", placed, booked>>20)
	}
	for _, class := range []workload.Class{workload.Dedicated, workload.Batch} {
		s := service("more", 2, 300*gib)
		s.Class = class
		if r := l.Place(Request{Spec: s, Must: true}); workload.On(r.Placement.Memory, gpus) > 0 || r.Placement.Home.Intersects(gpus) {
			t.Errorf("%s: %v %v", class, r.Placement.Home, r.Placement.Memory)
		}
	}
	s := service("cuda", 8, 100*gib)
	s.Nodes = topology.Nodes(0, 2)
	r := NewLedger(onHost(grace(34))).Place(Request{Spec: service("big", 8, 470*gib)})
	l = NewLedger(onHost(grace(34)))
	l.Commit(r.Placement)
	s.Memory = 150 * gib
	if r := l.Place(Request{Spec: s}); !r.Placed() || workload.On(r.Placement.Memory, gpus) == 0 {
		t.Errorf("it names node 2: %+v", r.Decision)
	}
	for _, x := range NewLedger(st).Left() {
		if gpus.Has(x.Node) && x.Memory != 0 {
			t.Errorf("node %d offers %d KiB", x.Node, x.Memory)
		}
	}
}

// TestConfinedToAllNodes: memory nodes that a cgroup may use name no GPU, unless it may use nothing else.
func TestConfinedToAllNodes(t *testing.T) {
	st := onHost(grace(12))
	s := derived(seen("a", 2, "0-71", "0-2", 12*gib, 0, 0))
	r := request(st.Host, &subject{Subject: s})
	if r.Spec.Nodes.String() != "0-1" {
		t.Errorf("nodes %v, want 0-1", r.Spec.Nodes)
	}
	s.Observation.Mems = topology.Nodes(2)
	if r := request(st.Host, &subject{Subject: s}); r.Spec.Nodes.String() != "2" {
		t.Errorf("nodes %v, want 2", r.Spec.Nodes)
	}
}

// typed is withCXL with the type of node 2 known.
var typed = strings.Replace(withCXL, "17 27 10", "17 27 10 type=cxl", 1)

// demoting is that host where the kernel moves cold pages to node 2.
func demoting() plan.State {
	st := onHost(typed)
	st.Host.Tiering = topology.Tiering{Demotion: true, Tiers: []topology.Tier{{ID: 4, Nodes: topology.Nodes(0, 1)}, {ID: 22, Nodes: topology.Nodes(2)}}}
	return st
}

// TestDemotedMemoryStays: what the kernel moved to a slower tier is not fetched back, scan after scan; what lies on
// another node of DRAM is, and the step says what stays. Without demotion the slow node is as far as any.
func TestDemotedMemoryStays(t *testing.T) {
	for _, tt := range []struct {
		name   string
		off    bool // demotion is
		memory []topology.KiB
		want   topology.KiB // planned to move
		stays  string
	}{
		{"12 GiB at home, 2 demoted", false, []topology.KiB{12 * gib, 0, 2 * gib}, 0, ""},
		{"1 GiB on the other node", false, []topology.KiB{12 * gib, gib, 2 * gib}, gib, "2"},
		{"all demoted", false, []topology.KiB{0, 0, 14 * gib}, 0, ""},
		{"demotion is off", true, []topology.KiB{12 * gib, 0, 2 * gib}, 2 * gib, ""},
	} {
		st := demoting()
		st.Host.Tiering.Demotion = !tt.off
		st.Placements = []plan.Placement{sharedOn("a", "0", "0-3,8-11", 3, 14*gib)}
		moved := topology.KiB(0)
		for range 5 {
			p := Arrange(st, []*Subject{derived(seen("a", 2, "0-3,8-11", "0-2", tt.memory[0], tt.memory[1], tt.memory[2]))}, options)
			for _, s := range p.Steps {
				if s.Kind != plan.MovePages {
					continue
				}
				moved += topology.KiB(s.Bytes >> 10)
				if s.Target.Stays.String() != tt.stays || s.To != "0" || workload.Total(s.Shares) != tt.memory[0]+tt.want {
					t.Errorf("%s: to %s, %v stays, shares %v", tt.name, s.To, s.Target.Stays, s.Shares)
				}
			}
			if p.Placements[0].Home.String() != "0" {
				t.Errorf("%s: home %v", tt.name, p.Placements[0].Home)
			}
		}
		if moved != 5*tt.want {
			t.Errorf("%s: %d MiB in 5 scans, want %d", tt.name, moved>>10, 5*tt.want>>10)
		}
	}
}

// TestGPUPagesStay: the GPU's driver put pages on its node.
func TestGPUPagesStay(t *testing.T) {
	st := onHost(grace(3))
	st.Placements = []plan.Placement{sharedOn("a", "0", "0-71", 3, 14*gib)}
	p := Arrange(st, []*Subject{derived(seen("a", 2, "0-71", "0-2", 12*gib, 0, 2*gib))}, options)
	for _, s := range p.Steps {
		if s.Kind == plan.MovePages {
			t.Errorf("%+v", s)
		}
	}
}

// TestDemotedBinding: dedicated work keeps the slower tiers among its memory nodes: narrowing them would bring all
// that was demoted back at once.
func TestDemotedBinding(t *testing.T) {
	st := demoting()
	s := derived(seen("a", 2, "0-1", "0-2", 12*gib, 0, 2*gib))
	s.Spec.Class, s.Spec.Given = workload.Dedicated, true
	p := Arrange(st, []*Subject{s}, options)
	i := slices.IndexFunc(p.Steps, func(x plan.Step) bool { return x.Kind == plan.SetMems })
	if i < 0 || p.Steps[i].To != "0,2" {
		t.Fatalf("%+v", p.Steps)
	}
	if v := plan.CheckPlan(st, p); v != nil {
		t.Error(v)
	}
	st.Host.Tiering.Demotion = false
	if v := plan.CheckPlan(st, p); len(v) != 1 {
		t.Errorf("without demotion node 2 is no part of the home: %v", v)
	}
	st.Host.Tiering.Demotion = true
	s.Observation.Mems = topology.Nodes(0, 2)
	st.Placements = p.Placements
	for _, x := range Arrange(st, []*Subject{s}, options).Steps {
		if x.Kind == plan.SetMems || x.Kind == plan.MovePages {
			t.Errorf("a second scan: %+v", x)
		}
	}
}

// TestSlowWhenShort: a slow node is a home when DRAM is short or when it is named, and the decision says which.
func TestSlowWhenShort(t *testing.T) {
	type want struct {
		home string
		code words.Code
	}
	for _, tt := range []struct {
		name   string
		before []workload.Spec
		spec   workload.Spec
		nodes  topology.NodeSet
		want   want
	}{
		{"room at home", nil, service("a", 4, 10*gib), topology.NodeSet{}, want{"0", words.Code("")}},
		{"room on the farther node of DRAM only", []workload.Spec{service("x", 8, 6*gib)}, service("a", 4, 20*gib), topology.NodeSet{}, want{"0-1", words.Code("")}},
		{"no room in DRAM", []workload.Spec{service("x", 8, 12*gib), service("y", 8, 12*gib)}, service("a", 4, 10*gib), topology.NodeSet{}, want{"", words.SlowShort}},
		{"named", nil, service("a", 4, 20*gib), topology.Nodes(0, 2), want{"0,2", words.SlowNamed}},
	} {
		l := NewLedger(onHost(typed))
		for _, s := range tt.before {
			l.Commit(l.Place(Request{Spec: s}).Placement)
		}
		tt.spec.Nodes = tt.nodes
		r := l.Place(Request{Spec: tt.spec})
		if !r.Placed() {
			t.Errorf("%s: %+v", tt.name, r.Decision)
			continue
		}
		var codes []words.Code
		for _, x := range r.Decision.Reasons {
			if x.Code == words.SlowShort || x.Code == words.SlowNamed {
				codes = append(codes, x.Code)
			}
		}
		slow := r.Placement.Home.Has(2)
		switch {
		case tt.want.home != "" && r.Placement.Home.String() != tt.want.home,
			tt.want.code == words.Code("") && (slow || codes != nil),
			tt.want.code != words.Code("") && (!slow || !slices.Equal(codes, []words.Code{tt.want.code})):
			t.Errorf("%s: home %v, %v", tt.name, r.Placement.Home, words.Sentences(r.Decision.Reasons))
		}
	}
}

// BenchmarkGrace is one decision on a host of 34 nodes, 2 of them with CPUs; it is to take less than 1 ms.
func BenchmarkGrace(b *testing.B) {
	for _, s := range []workload.Spec{service("one node", 8, 200*gib), service("both nodes", 100, 600*gib), vm("dedicated, both nodes", 100, 600*gib), service("refused", 8, 2000*gib)} {
		b.Run(string(s.ID), func(b *testing.B) {
			l := NewLedger(onHost(grace(34)))
			for b.Loop() {
				l.Place(Request{Spec: s})
			}
		})
	}
}
