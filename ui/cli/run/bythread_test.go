package run

import (
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
)

// TestByThread: only in a home of several nodes, each with CPUs, does memory follow the threads.
func TestByThread(t *testing.T) {
	root := fstest.MapFS{
		"sys/devices/system/node/node0/cpulist": {Data: []byte("0-3\n")},
		"sys/devices/system/node/node1/cpulist": {Data: []byte("4-7\n")},
		"sys/devices/system/node/node2/cpulist": {Data: []byte("\n")},
	}
	for _, c := range []struct {
		name  string
		nodes topology.NodeSet
		cpus  topology.CPUSet
		want  bool
	}{
		{"one node", topology.Nodes(0), topology.CPUs(0, 1), false},
		{"two nodes", topology.Nodes(0, 1), topology.CPUs(0, 1, 4, 5), true},
		{"no CPUs of it on the second", topology.Nodes(0, 1), topology.CPUs(0, 1), false},
		{"memory alone on the second", topology.Nodes(0, 2), topology.CPUs(0, 1), false},
		{"unknown node", topology.Nodes(0, 9), topology.CPUs(0, 1), false},
	} {
		if got := byThread(root, api.Home{Nodes: c.nodes, CPUs: c.cpus}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
