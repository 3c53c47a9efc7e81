package workload

import (
	"math"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

func TestLocalShareTakesTheBestSource(t *testing.T) {
	ran := []NodeShare{{0, 1}}
	mem := []NodeMemory{{0, 30}, {1, 70}}
	for _, tt := range []struct {
		name string
		o    Observation
		want float64
		from Source
		ok   bool
	}{
		{"counted", Observation{RanOn: ran, Memory: mem, Accesses: Accesses{From: Counters, Local: 0.9}}, 0.9, Counters, true},
		{"counted: none local", Observation{RanOn: ran, Memory: mem, Accesses: Accesses{From: Hints}}, 0, Hints, true},
		{"from residence", Observation{RanOn: ran, Memory: mem}, 0.3, Residence, true},
		{"a share without a source is none", Observation{RanOn: ran, Memory: mem, Accesses: Accesses{Local: 0.9}}, 0.3, Residence, true},
		{"nothing tells", Observation{Memory: mem}, 0, Residence, false},
	} {
		if share, from, ok := tt.o.LocalShare(); share != tt.want || from != tt.from || ok != tt.ok {
			t.Errorf("%s: %v from %s, %v; want %v from %s, %v", tt.name, share, from, ok, tt.want, tt.from, tt.ok)
		}
	}
}

func TestMemoryNodes(t *testing.T) {
	home := topology.Nodes(0, 1, 2)
	for _, tt := range []struct {
		name string
		mem  []NodeMemory
		want topology.NodeSet
	}{
		{"size unknown", nil, home},
		{"booked on a part of its home", []NodeMemory{{0, 1}, {2, 5}}, topology.Nodes(0, 2)},
		{"a booking of nothing is none", []NodeMemory{{0, 0}, {1, 5}}, topology.Nodes(1)},
		{"nothing booked anywhere", []NodeMemory{{0, 0}}, home},
	} {
		p := Placement{Home: home, Memory: tt.mem}
		if got := p.MemoryNodes(); !got.Equal(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A tree of processes that each have their memory where they run is local, though half of all its
// memory is on each node. Where one is not known, the whole counts.
func TestExpectedByProcess(t *testing.T) {
	on := func(node topology.NodeID) []NodeMemory { return []NodeMemory{{Node: node, KiB: 1 << 20}} }
	ran := func(node topology.NodeID) []NodeShare { return []NodeShare{{Node: node, Share: 1}} }
	o := Observation{
		Processes: []Process{{PID: 1}, {PID: 2}},
		RanOn:     []NodeShare{{Node: 0, Share: 0.5}, {Node: 1, Share: 0.5}},
		Memory:    []NodeMemory{{Node: 0, KiB: 1 << 20}, {Node: 1, KiB: 1 << 20}},
	}
	for _, tt := range []struct {
		name string
		per  []ProcessMemory
		want float64
	}{
		{"not read", nil, 0.5},
		{"each at its memory", []ProcessMemory{{1, on(0), ran(0), 1}, {2, on(1), ran(1), 1}}, 1},
		{"each away from it", []ProcessMemory{{1, on(1), ran(0), 1}, {2, on(0), ran(1), 1}}, 0},
		{"the busy one at it", []ProcessMemory{{1, on(0), ran(0), 0.99}, {2, on(0), ran(1), 0}}, 100.0 / 101},
		{"one is not known", []ProcessMemory{{1, on(0), ran(0), 1}}, 0.5},
		{"threads are not read", []ProcessMemory{{1, on(0), nil, 0}, {2, on(1), ran(1), 1}}, 0.5},
	} {
		o.PerProcess = tt.per
		got, from, ok := o.LocalShare()
		if !ok || from != Residence || math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v %s %v, want %v", tt.name, got, from, ok, tt.want)
		}
	}
}

// TestSameCgroup: an entry of an earlier cgroup under a path is not of the one that is there.
func TestSameCgroup(t *testing.T) {
	for _, tt := range []struct {
		object string
		id     uint64
		want   bool
	}{{"", 5, true}, {"5", 0, true}, {"5", 5, true}, {"15", 15, true}, {"5", 55, false}, {"55", 5, false}} {
		got := (&Observation{CgroupID: tt.id}).SameCgroup(tt.object)
		if got != tt.want {
			t.Errorf("%q and %d: %v", tt.object, tt.id, got)
		}
	}
}
