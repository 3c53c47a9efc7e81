package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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

// typed is withCXL with the type of node 2 known.
var typed = strings.Replace(withCXL, "17 27 10", "17 27 10 type=cxl", 1)

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
