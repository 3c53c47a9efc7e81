package main

import (
	"testing"

	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// twoByTwo is two nodes of 8 CPUs in two packages, each with two caches of 4 CPUs and cores of two.
func twoByTwo() *replay.Case {
	h := &topology.Host{}
	for n := range 2 {
		var all topology.CPUSet
		for c := range 2 {
			var cache topology.CPUSet
			for k := range 2 {
				first := topology.CPUID(8*n + 4*c + 2*k)
				core := topology.CPUs(first, first+1)
				h.Cores = append(h.Cores, topology.Core{CPUs: core})
				cache = cache.Union(core)
			}
			h.LLCs = append(h.LLCs, topology.LLC{CPUs: cache, Level: 3})
			all = all.Union(cache)
		}
		h.Nodes = append(h.Nodes, topology.Node{ID: topology.NodeID(n), Package: topology.PackageID(n), CPUs: all, Memory: 100})
		h.Online = h.Online.Union(all)
	}
	h.NumberLLCs()
	return &replay.Case{Host: h, Policy: plan.Policy{Reserved: topology.CPUs(0)}}
}

// TestCacheRules: each peer's rule takes the CPUs that its documentation says.
func TestCacheRules(t *testing.T) {
	for _, x := range []struct {
		rule, busy string
		vcpus      int
		want       string
	}{
		{cacheRules[0].name, "", 4, "4-7"},     // a whole free cache, node 0 being the lowest with room
		{cacheRules[0].name, "4-5", 2, "6-7"},  // of the partly used caches the fullest with whole cores enough
		{cacheRules[0].name, "", 5, "1,4-7"},   // a whole cache, and a CPU of a broken core
		{cacheRules[0].name, "1-7", 8, "8-15"}, // a whole node
		{cacheRules[0].name, "1-15", 1, ""},
		{cacheRules[1].name, "4-5", 2, "8-9"},              // the emptiest cache
		{cacheRules[1].name, "1-4,8", 4, "12-15"},          // the only one with room
		{cacheRules[1].name, "1,4,8,12", 4, "10-11,14-15"}, // no cache has room: the emptiest node, whole cores first
		{cacheRules[2].name, "", 2, "8-9"},                 // node 1 has more free
		{cacheRules[3].name, "", 2, "2-3"},                 // node 0 has fewer
	} {
		for _, r := range cacheRules {
			if r.name != x.rule {
				continue
			}
			b := newCacheBook(twoByTwo())
			busy, err := topology.ParseCPUSet(x.busy)
			if err != nil {
				t.Fatal(err)
			}
			b.free = b.free.Minus(busy)
			if got := topology.CPUs(r.choose(b, x.vcpus, 10)...).String(); got != x.want {
				t.Errorf("%s, %q busy, %d wanted: CPUs %s, want %s", r.name, x.busy, x.vcpus, got, x.want)
			}
			if got := r.choose(b, 1, 1000); got != nil {
				t.Errorf("%s gives CPUs %v where the host lacks the memory", r.name, got)
			}
		}
	}
}
