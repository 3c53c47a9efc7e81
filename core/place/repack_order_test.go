package place

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Who makes most of the room that is short is tried first: what it holds beyond that
// counts for nothing.
func TestWhoIsTriedFirst(t *testing.T) {
	const host = `
		0  0-7  16G 10 21
		1  8-15 16G 21 10
	`
	for _, tt := range []struct {
		name    string
		running []onNode
		out     workload.ID // evicted already
		vcpus   float64
		memory  topology.KiB
		want    []workload.ID
	}{
		{name: "by CPUs", running: []onNode{{whole("a", 2, gib), 0}, {whole("b", 5, gib), 0}, {whole("c", 4, gib), 1}},
			vcpus: 5, memory: gib, want: []workload.ID{"b", "a"}},
		{name: "by memory", running: []onNode{{whole("a", 3, gib), 0}, {whole("b", 1, 8*gib), 0}},
			vcpus: 2, memory: 14 * gib, want: []workload.ID{"b", "a"}},
		{name: "a lot of CPUs and little memory", running: []onNode{{whole("a", 7, gib), 0}, {whole("b", 1, 8*gib), 0}},
			vcpus: 1, memory: 12 * gib, want: []workload.ID{"b", "a"}},
		{name: "a lot of memory and few CPUs", running: []onNode{{whole("a", 1, 12*gib), 0}, {whole("b", 6, 2*gib), 0}},
			vcpus: 7, memory: 3 * gib, want: []workload.ID{"b", "a"}},
		{name: "of equals the first by name", running: []onNode{{whole("a", 4, gib), 0}, {whole("b", 4, gib), 0}},
			vcpus: 2, memory: gib, want: []workload.ID{"a", "b"}},
		{name: "who is out already is not there", running: []onNode{{whole("a", 4, gib), 0}, {whole("b", 4, gib), 0}}, out: "a",
			vcpus: 6, memory: gib, want: []workload.ID{"b"}},
	} {
		st := onHost(host)
		l, running := settled(t, st, tt.running)
		r := newRepack(l, Request{Spec: vm("new", int(tt.vcpus), tt.memory)}, RepackOptions{Running: running})
		for j := range r.movers {
			if r.movers[j].held.Workload == tt.out {
				r.evict(j)
			}
		}
		var got []workload.ID
		for _, j := range r.there(&r.want, share{0, tt.vcpus, tt.memory}) {
			got = append(got, r.movers[j].held.Workload)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A wide workload is tried on every two nodes, even when all that may move fill the host.
func TestPairsThatAWideOneIsTriedOn(t *testing.T) {
	for _, even := range []bool{false, true} {
		st := onHost(`
			0  0-3   16G 10 12 22 22
			1  4-7   16G 12 10 22 22
			2  8-11  16G 22 22 10 12
			3  12-15 16G 22 22 12 10
		`)
		var filling []onNode
		for n := range topology.NodeID(4) {
			filling = append(filling, onNode{whole("fill"+string(rune('0'+n)), 4, 4*gib), n})
		}
		l, running := settled(t, st, filling)
		spec := vm("wide", 8, 8*gib)
		spec.Even, spec.MaxNodes = even, 2
		r := newRepack(l, Request{Spec: spec}, RepackOptions{Running: running})
		var got []string
		for _, shares := range r.destinations(&r.want) {
			var on topology.NodeSet
			for _, s := range shares {
				on.Add(topology.NodeID(s.node))
				if s.vcpus != 4 || even && s.memory != 4*gib {
					t.Errorf("even %v: %+v", even, shares)
				}
			}
			got = append(got, on.String())
		}
		near := slices.Clone(got[:min(2, len(got))])
		slices.Sort(near)
		slices.Sort(got)
		got = slices.Compact(got)
		if diff := cmp.Diff([]string{"0,2", "0,3", "0-1", "1,3", "1-2", "2-3"}, got) + cmp.Diff([]string{"0-1", "2-3"}, near); diff != "" {
			t.Errorf("even %v: near first (-want +got):\n%s", even, diff)
		}
	}
}

// A wide one that is evicted may go where it is no farther from its memory than it was.
func TestWhereAWideOneMayGo(t *testing.T) {
	for _, on := range []topology.NodeSet{topology.Nodes(0, 1), topology.Nodes(0, 2)} {
		l := NewLedger(onHost(twoSockets))
		spec := vm("wide", 16, 8*gib)
		spec.MaxNodes = 2
		spec.Nodes = on
		p := l.Place(Request{Spec: spec, Must: true})
		l.Commit(p.Placement)
		spec.Nodes = topology.NodeSet{}
		r := newRepack(l, Request{Spec: vm("new", 8, gib)}, RepackOptions{Running: []Runner{{Spec: spec}}})
		r.evict(0)
		var got []string
		for _, shares := range r.places(0) {
			c := candidate{shares: shares}
			got = append(got, c.nodes(l).String())
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"0-1", "2-3"}, got); diff != "" {
			t.Errorf("from %v (-want +got):\n%s", on, diff)
		}
	}
}

// No place is nearer than one node that holds all, or else the best node filled and the rest
// on its nearest.
func TestLeastAccess(t *testing.T) {
	l := NewLedger(onHost(twoSockets)) // 8 CPUs a node, 1.2 to the neighbour, 3.2 to the others
	for name, tt := range map[string]struct {
		spec workload.Spec
		edit func(*workload.Spec)
		want float64
	}{
		"fits a node":         {vm("a", 8, gib), nil, 1},
		"one and a half":      {vm("a", 12, gib), nil, (8 + 4*1.2) / 12},
		"on nodes far apart":  {vm("a", 12, gib), func(s *workload.Spec) { s.Nodes = topology.Nodes(0, 2) }, (8 + 4*3.2) / 12},
		"shared over three":   {service("a", 30, gib), nil, (24 + 6*1.2) / 30},
		"more than the host":  {vm("a", 33, gib), nil, 1},
		"all of it":           {vm("a", 32, gib), nil, (8 + 8*1.2 + 16*3.2) / 32},
		"its memory is large": {vm("a", 4, 20*gib), nil, 1},
	} {
		if tt.edit != nil {
			tt.edit(&tt.spec)
		}
		w := newWant(l, &Request{Spec: tt.spec})
		if got := w.leastAccess(l); !about(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// Two movers are interchangeable when they want the same in every respect.
func TestAlike(t *testing.T) {
	base := func() want {
		return want{Spec: workload.Spec{Class: workload.Dedicated, HugePage: 1, SMT: workload.SMTPrefer, MaxNodes: 1, Bandwidth: 1, Importance: 50, Nodes: topology.Nodes(0)}, vcpus: 2, memory: 3}
	}
	for name, change := range map[string]func(*want){
		"":            func(*want) {},
		"another ID":  func(w *want) { w.ID = "x" },
		"class":       func(w *want) { w.Class = workload.Shared },
		"vCPUs":       func(w *want) { w.vcpus = 3 },
		"memory":      func(w *want) { w.memory = 4 },
		"pages":       func(w *want) { w.HugePage = 2 },
		"SMT":         func(w *want) { w.SMT = workload.SMTIsolate },
		"pull":        func(w *want) { w.pull = []float64{1} },
		"nodes":       func(w *want) { w.MaxNodes = 2 },
		"even":        func(w *want) { w.Even = true },
		"bandwidth":   func(w *want) { w.Bandwidth = 2 },
		"importance":  func(w *want) { w.Importance = 51 },
		"which nodes": func(w *want) { w.Nodes = topology.Nodes(1) },
	} {
		a, b := base(), base()
		change(&b)
		same := name == "" || name == "another ID"
		if alike(&a, &b) != same || alike(&b, &a) != same {
			t.Errorf("%s: alike %v", name, !same)
		}
	}
}

// Of plans the one with fewer moves is better, then less memory, then less important work,
// then the better score.
func TestBetterPlan(t *testing.T) {
	plans := []*solution{
		{moves: make([]Move, 1), kib: 9, weight: 9, score: 9}, {moves: make([]Move, 2), kib: 1, weight: 9, score: 9}, {moves: make([]Move, 2), kib: 2, weight: 1, score: 9},
		{moves: make([]Move, 2), kib: 2, weight: 2, score: 1}, {moves: make([]Move, 2), kib: 2, weight: 2, score: 2}, nil,
	}
	for i, a := range plans[:5] {
		for k, b := range plans {
			if got := a.better(b); got != (i < k) {
				t.Errorf("plan %d is better than %d: %v", i, k, got)
			}
		}
	}
	nearly := *plans[4]
	nearly.score -= tiny / 2
	if nearly.better(plans[4]) {
		t.Error("a score that is lower by rounding")
	}
}

// Memory moves when it lies on other nodes after; a seat is another when its nodes, its CPUs,
// or its memory are.
func TestMovedKiB(t *testing.T) {
	for _, tt := range []struct {
		before, after []workload.NodeMemory
		want          topology.KiB
	}{
		{on(4), on(4), 0}, {on(4), on(0, 4), 4}, {on(4, 4), on(6, 2), 2}, {on(4, 4), on(1), 0}, {nil, on(5), 5}, {on(5), nil, 0}, {on(1, 2, 3), on(3, 2, 1), 2},
	} {
		if got := movedKiB(tt.before, tt.after); got != tt.want {
			t.Errorf("%v to %v: %d, want %d", tt.before, tt.after, got, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		change func(*plan.Placement)
		same   bool
	}{
		"":             {func(*plan.Placement) {}, true},
		"home":         {func(p *plan.Placement) { p.Home = topology.Nodes(1) }, false},
		"CPUs":         {func(p *plan.Placement) { p.CPUs = topology.CPUs(1) }, false},
		"CPUs, shared": {func(p *plan.Placement) { p.CPUs, p.Class = topology.CPUs(1), workload.Shared }, true},
		"memory":       {func(p *plan.Placement) { p.Memory = on(0, 4) }, false},
	} {
		a := plan.Placement{Class: workload.Dedicated, Home: topology.Nodes(0), CPUs: topology.CPUs(0), Memory: on(4)}
		b := a
		tt.change(&b)
		a.Class = b.Class
		if got := sameSeat(&a, &b); got != tt.same {
			t.Errorf("another %q: the same %v", name, got)
		}
	}
}
