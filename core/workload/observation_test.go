package workload

import (
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
