package run

import (
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/ui/cli"
)

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
