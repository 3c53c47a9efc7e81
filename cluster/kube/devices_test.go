package main

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
)

// TestCachesOfDevices: a device says how many last-level caches its node has, how many of its CPUs share one,
// and how large they are.
func TestCachesOfDevices(t *testing.T) {
	for _, c := range []struct {
		host              string
		llcs, shared, kib int64 // -1: not said
	}{
		{"package:2 node:1(memory=64GiB) llc:4 core:4 pu:2", 4, 8, 32 << 10},
		{"package:2 node:1(memory=64GiB) llc:1 core:4 pu:1", 1, 4, 32 << 10},
		{"package:2 node:1(memory=64GiB) core:4 pu:1", 0, -1, -1},
	} {
		h, err := topology.FromSynthetic(c.host)
		if err != nil {
			t.Fatal(err)
		}
		for i := range h.LLCs {
			h.LLCs[i].Size = 32 << 10
		}
		got := attributes(h, 0, false)
		for name, want := range map[resourceapi.QualifiedName]int64{"llcs": c.llcs, "cpusPerLLC": c.shared, "llcKiB": c.kib} {
			a, published := got[name]
			if published != (want >= 0) || (published && *a.IntValue != want) {
				t.Errorf("%s: %s is %+v, want %d", c.host, name, a, want)
			}
		}
	}
}

// TestDeviceHasRoom: on the largest host whose distances are all published, with every size of huge page that Arm
// has, a device stays within what the API takes.
func TestDeviceHasRoom(t *testing.T) {
	h, err := topology.FromSynthetic("package:8 node:1(memory=64GiB) llc:4 core:4 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	h.LLCs[0].Size = 32 << 10
	h.Measured = &topology.Measured{}
	room := api.Room{Host: h}
	memory := int64(64 << 20)
	for i := range h.Nodes {
		h.Measured.LatencyNs = append(h.Measured.LatencyNs, slices.Repeat([]float64{120}, len(h.Nodes)))
		h.Cores[i].Capacity = 512 + 512*(i%2)
		h.CPU = "a CPU"
		h.Devices = append(h.Devices, topology.Device{Kind: topology.NIC, Node: h.Nodes[i].ID, Root: "pci0000:00"})
		left := api.NodeRoom{Node: h.Nodes[i].ID, CPUs: 8, MemoryKiB: &memory}
		for _, kib := range []int64{64, 2 << 10, 32 << 10, 1 << 20} {
			left.HugePages = append(left.HugePages, api.HugeRoom{SizeKiB: kib, FreeKiB: 1 << 20})
		}
		room.Nodes = append(room.Nodes, left)
	}
	for _, d := range devices(&room, offer{}) {
		if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
			t.Errorf("%s has %d attributes and capacities, the API takes %d: %v %v", d.Name, n, resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice, d.Attributes, d.Capacity)
		}
	}
}
