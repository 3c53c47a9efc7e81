package run

import (
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/ui/cli"
)

// TestBandwidthNodes: bandwidth-bound work has the memory of its home and the slower memory next to it, never a GPU's.
func TestBandwidthNodes(t *testing.T) {
	h := plantest.Draw(`
		0 0-3 16G 10 21 20 30 80
		1 4-7 16G 21 10 30 20 90
		2 -   32G 20 30 10 40 99 type=cxl
		3 -   32G 30 20 40 10 99 type=cxl
		4 -   96G 80 90 99 99 10 type=gpu
	`)
	for home, want := range map[string]string{"0": "0,2", "1": "1,3", "0-1": "0-3"} {
		nodes, err := topology.ParseNodeSet(home)
		if err != nil {
			t.Fatal(err)
		}
		if got := bandwidthNodes(h, nodes).String(); got != want {
			t.Errorf("home %s: nodes %s, want %s", home, got, want)
		}
	}
	h.AllowedMems = topology.Nodes(0, 1)
	if got := bandwidthNodes(h, topology.Nodes(0)).String(); got != "0" {
		t.Errorf("beyond its cpuset: nodes %s", got)
	}
	h.Distances = nil
	if got := bandwidthNodes(h, topology.Nodes(0)).String(); got != "0" {
		t.Errorf("without distances: nodes %s", got)
	}
}

// TestPolicyFlag: --policy takes bandwidth, and no other memory policy goes with it.
func TestPolicyFlag(t *testing.T) {
	for _, c := range []struct {
		w  where
		ok bool
	}{
		{where{}, true}, {where{policy: bandwidth}, true}, {where{policy: "fast"}, false},
		{where{policy: bandwidth, memory: "membind"}, false},
	} {
		if err := c.w.checkPolicy(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.w, err)
		}
	}
	root := fstest.MapFS{
		"sys/kernel/mm/mempolicy/weighted_interleave/node0": {Data: []byte("4\n")},
		"sys/kernel/mm/mempolicy/weighted_interleave/node2": {Data: []byte("1\n")},
	}
	if got := weightsNow(root, topology.Nodes(0, 2)); got != "node 0: 4, node 2: 1" {
		t.Error(got)
	}
	if got := weightsNow(root, topology.Nodes(0, 1)); got != "not shown (Linux 6.9)" {
		t.Error(got)
	}
	w := where{start: cli.Start{Memory: cli.MemoryHome, Nodes: topology.Nodes(0)}}
	if _, err := w.spread(&cli.Env{Root: fstest.MapFS{}}, topology.Nodes(0)); err == nil || w.start.Memory != cli.MemoryHome {
		t.Errorf("on an empty machine: %v, %s", err, w.start.Memory)
	}
}
