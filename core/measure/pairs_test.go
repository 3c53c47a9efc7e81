package measure

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// TestQuickPairs: a quick measurement of core to core has pairs within a cache and between caches, on
// every package, and stays within 32 CPUs.
func TestQuickPairs(t *testing.T) {
	for _, c := range []struct {
		host  string
		cpus  int
		cache int // caches with two CPUs among the pairs
	}{
		{"package:1 node:1(memory=64GiB) llc:8 core:8 pu:2", 16, 8},
		{"package:2 node:1(memory=64GiB) llc:8 core:8 pu:2", 32, 16},
		{"package:2 node:1(memory=64GiB) llc:32 core:4 pu:2", 32, 16},
		{"package:2 node:1(memory=64GiB) llc:1 core:24 pu:2", 8, 2},
		{"package:1 node:1(memory=64GiB) llc:2 core:1 pu:2", 2, 0},
		{"package:32 node:1(memory=8GiB) llc:2 core:2 pu:1", 128, 64},
		{"package:1 node:1(memory=64GiB) core:8 pu:2", 4, 0},
	} {
		h := synthetic(t, c.host)
		p, err := MakePlan(h, request(false, PartC2C), 0)
		if err != nil {
			t.Fatalf("%s: %v", c.host, err)
		}
		if len(p.Pairs) != c.cpus {
			t.Errorf("%s: %d CPUs %v, want %d", c.host, len(p.Pairs), p.Pairs, c.cpus)
		}
		pairs := 0
		for i := range h.LLCs {
			if topology.CPUs(p.Pairs...).Intersect(h.LLCs[i].CPUs).Len() > 1 {
				pairs++
			}
		}
		if pairs != c.cache {
			t.Errorf("%s: two CPUs of %d caches, want %d", c.host, pairs, c.cache)
		}
		for _, pkg := range h.Packages {
			if !topology.CPUs(p.Pairs...).Intersects(pkg.CPUs) {
				t.Errorf("%s: no CPU of package %d", c.host, pkg.ID)
			}
		}
	}
}
