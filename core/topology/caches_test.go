package topology_test

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// TestCaches: which caches divide a home, and which of them CPUs are in.
func TestCaches(t *testing.T) {
	made := func(text string) *topology.Host {
		h, err := topology.FromSynthetic(text)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	sub := func(text string) *topology.Host {
		h, err := topology.FromJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	two, plain := made("node:2 llc:2 core:4 pu:2"), made("node:2 llc:1 core:8")
	for name, c := range map[string]struct {
		host *topology.Host
		home topology.NodeSet
		cpus string
		on   string // CachesOn the home
		in   string // CachesOf the CPUs
	}{
		"two caches a node":   {two, topology.Nodes(1), "12-15", "2-3", "3"},
		"all of a node":       {two, topology.Nodes(1), "8,15", "2-3", ""},
		"over two nodes":      {two, topology.Nodes(0, 1), "7,8", "0-3", "1-2"},
		"one cache a node":    {plain, topology.Nodes(1), "8", "", ""},
		"two nodes of one":    {plain, topology.Nodes(0, 1), "8", "", ""},
		"a cache a core":      {made("node:1 llc:4 core:1 pu:2"), topology.Nodes(0), "0", "", ""},
		"one shared, one own": {sub(`{"schema":"homenode-host/1","nodes":[{"id":0,"cpus":"0-2"}],"llcs":[{"cpus":"0-1"},{"cpus":"2"}]}`), topology.Nodes(0), "2", "0-1", "1"},
		"no such node":        {two, topology.Nodes(7), "8", "", ""},
		"one cache over two nodes": {sub(`{"schema":"homenode-host/1","nodes":[{"id":0,"cpus":"0-1"},{"id":1,"cpus":"2-3"}],"llcs":[{"cpus":"0-3"}]}`),
			topology.Nodes(0), "0", "", ""},
		"the kernel's numbers": {sub(`{"schema":"homenode-host/1","nodes":[{"id":0,"cpus":"0-7"}],"llcs":[{"id":17,"cpus":"4-7"},{"id":16,"cpus":"0-3"}]}`),
			topology.Nodes(0), "4", "16-17", "17"},
		"numbers given twice": {sub(`{"schema":"homenode-host/1","nodes":[{"id":0,"cpus":"0-7"}],"llcs":[{"id":16,"cpus":"4-7"},{"id":16,"cpus":"0-3"}]}`),
			topology.Nodes(0), "4", "0-1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			cpus, err := topology.ParseCPUSet(c.cpus)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.host.CachesOn(c.home).String(); got != c.on {
				t.Errorf("CachesOn(%v) is %q, want %q", c.home, got, c.on)
			}
			if got := c.host.CachesOf(cpus, c.home).String(); got != c.in {
				t.Errorf("CachesOf(%v, %v) is %q, want %q", cpus, c.home, got, c.in)
			}
		})
	}
}

// TestCacheNodes: a cache has the nodes of its CPUs.
func TestCacheNodes(t *testing.T) {
	h, err := topology.FromJSON(strings.NewReader(
		`{"schema":"homenode-host/1","nodes":[{"id":0,"cpus":"0-1"},{"id":3,"cpus":"2-5"}],"llcs":[{"cpus":"0-3"},{"cpus":"4-5"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"0,3", "3"} {
		l := h.LLCs[i]
		if l.ID != topology.CacheID(i) || l.Nodes.String() != want {
			t.Errorf("cache %d is %+v, want nodes %s", i, l, want)
		}
	}
}
