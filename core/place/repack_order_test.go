package place

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

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
