package scx

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
)

func cpu(id, node, llc int, siblings ...topology.CPUID) CPU {
	return CPU{ID: topology.CPUID(id), Node: topology.NodeID(node), LLC: llc, Siblings: topology.CPUs(siblings...)}
}

// TestTables: CPUs are listed by node and cache, whatever their numbers; a node may have several
// caches, and numbers have gaps.
func TestTables(t *testing.T) {
	c := Config{
		CPUs:  []CPU{cpu(0, 0, 7, 4), cpu(1, 2, 7, 5), cpu(4, 0, 7, 0), cpu(5, 2, 7, 1), cpu(9, 0, 8)},
		Nodes: []Node{{ID: 2, Budget: 1.5, Idle: 1}},
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	k := c.tables()
	if k.settings.NrCPUs != 10 || k.settings.NrListed != 5 || k.settings.NrLLCs != 3 || k.settings.NrNodes != 3 || k.settings.Guard != 1e9 || k.settings.Slice != 2e6 || k.settings.Hold != 2e5 || k.settings.Patience != 15e9 {
		t.Errorf("%+v", k.settings)
	}
	var order []uint32
	for i := range 5 {
		order = append(order, k.places[i].Order)
	}
	for i, want := range []uint32{0, 4, 9, 1, 5} {
		if order[i] != want {
			t.Fatalf("order %v", order)
		}
	}
	for i, want := range []kernelLLC{{Node: 0, First: 0, Count: 2}, {Node: 0, First: 2, Count: 1}, {Node: 2, First: 3, Count: 2}} {
		if k.llcs[i] != want {
			t.Errorf("LLC %d: %+v, want %+v", i, k.llcs[i], want)
		}
	}
	if got, want := k.nodes[0], (kernelNode{First: 0, Count: 3, FirstLLC: 0, NrLLCs: 2, Budget: -1}); got != want {
		t.Errorf("node 0: %+v", got)
	}
	if got, want := k.nodes[2], (kernelNode{First: 3, Count: 2, FirstLLC: 2, NrLLCs: 1, Budget: 1500, Buffer: 1}); got != want {
		t.Errorf("node 2: %+v", got)
	}
	if p := k.places[5]; p.Known != 1 || p.LLC != 2 || p.NrSiblings != 1 || p.Siblings[0] != 1 {
		t.Errorf("CPU 5: %+v", p)
	}
	if k.places[2].Known != 0 {
		t.Errorf("CPU 2 is not there: %+v", k.places[2])
	}
	if c.NoGuard = true; c.tables().settings.Guard != 0 {
		t.Error("no guard was asked for")
	}
	if c.Hold = -1; c.tables().settings.Hold != 0 {
		t.Error("no hold was asked for")
	}
}

// TestDiffers: a budget costs one write; a CPU that comes or goes, or a time, has every CPU looked at.
func TestDiffers(t *testing.T) {
	c := Config{CPUs: []CPU{cpu(0, 0, 0), cpu(1, 0, 0), cpu(2, 1, 1)}, Nodes: []Node{{ID: 1, Budget: 1}}}
	before := c.tables()
	check := func(what string, wantNodes []int, wantMoved bool) {
		t.Helper()
		nodes, moved := c.tables().differs(before)
		if !slices.Equal(nodes, wantNodes) || moved != wantMoved {
			t.Errorf("%s: nodes %v, moved %v; want %v, %v", what, nodes, moved, wantNodes, wantMoved)
		}
	}
	check("nothing", nil, false)
	c.Nodes = []Node{{ID: 1, Budget: 0.5}}
	check("a budget", []int{1}, false)
	c.Nodes = []Node{{ID: 0, Budget: -1, Idle: 1}, {ID: 1, Budget: 1}}
	check("idle CPUs", []int{0}, false)
	c.Nodes = nil
	check("no bounds", []int{1}, false)
	c.Nodes, c.Hold = []Node{{ID: 1, Budget: 1}}, time.Millisecond
	check("a time", nil, true)
	c.Hold, c.CPUs = 0, c.CPUs[:2]
	check("a CPU goes", []int{1}, true)
	if nodes, moved := c.tables().differs(tables{}); len(nodes) != maxNodes || !moved {
		t.Errorf("the first time: %d nodes, moved %v", len(nodes), moved)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"none":     {func(c *Config) { c.CPUs = nil }, "no CPUs"},
		"twice":    {func(c *Config) { c.CPUs = append(c.CPUs, c.CPUs[0]) }, "CPU 0 twice"},
		"high":     {func(c *Config) { c.CPUs[0].ID = 1024 }, "CPU 1024: 0 to 1023"},
		"node":     {func(c *Config) { c.CPUs[0].Node = 64 }, "node 64 of CPU 0: 0 to 63"},
		"unknown":  {func(c *Config) { c.CPUs[0].Node = -1 }, "node -1 of CPU 0"},
		"bounds":   {func(c *Config) { c.Nodes = []Node{{ID: 64}} }, "node 64: 0 to 63"},
		"siblings": {func(c *Config) { c.CPUs[0].Siblings = topology.CPUs(1, 2, 3, 4, 5, 6, 7, 8) }, "has 8 siblings"},
		"timeout":  {func(c *Config) { c.Timeout = time.Minute }, "timeout 1m0s: 1s to 30s"},
		"guard":    {func(c *Config) { c.Timeout, c.Guard = 4*time.Second, 2*time.Second }, "guard 2s: 10ms to 1s"},
		"slice":    {func(c *Config) { c.Slice = 2 * time.Second }, "slice 2s: 100µs to 1s"},
		"hold":     {func(c *Config) { c.Hold = time.Second }, "hold 1s: at most 100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := Config{CPUs: []CPU{cpu(0, 0, 0)}}
			c.change(&conf)
			if err := conf.check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
