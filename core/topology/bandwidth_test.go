package topology_test

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// TestBandwidthNodes: bandwidth-bound work has the memory of its home and the slower memory next to it, never a GPU's.
func TestBandwidthNodes(t *testing.T) {
	h := &topology.Host{AllowedMems: topology.Nodes(0, 1, 2, 3, 4), Distances: [][]int{
		{10, 21, 20, 30, 80}, {21, 10, 30, 20, 90}, {20, 30, 10, 40, 99}, {30, 20, 40, 10, 99}, {80, 90, 99, 99, 10},
	}}
	for i, kind := range []topology.MemoryType{topology.TypeDRAM, topology.TypeDRAM, topology.TypeCXL, topology.TypeCXL, topology.TypeGPU} {
		n := topology.Node{ID: topology.NodeID(i), Kind: topology.Special, Type: kind}
		if i < 2 {
			n.Kind, n.CPUs = topology.DRAM, topology.CPUs(topology.CPUID(i))
		}
		h.Nodes = append(h.Nodes, n)
	}
	for home, want := range map[string]string{"0": "0,2", "1": "1,3", "0-1": "0-3"} {
		nodes, err := topology.ParseNodeSet(home)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.BandwidthNodes(nodes).String(); got != want {
			t.Errorf("home %s: nodes %s, want %s", home, got, want)
		}
	}
	h.AllowedMems = topology.Nodes(0, 1)
	if got := h.BandwidthNodes(topology.Nodes(0)).String(); got != "0" {
		t.Errorf("beyond its cpuset: nodes %s", got)
	}
	h.Distances = nil
	if got := h.BandwidthNodes(topology.Nodes(0)).String(); got != "0" {
		t.Errorf("without distances: nodes %s", got)
	}
}
