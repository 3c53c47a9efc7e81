package place

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// divided is bigHost with so many cores a cache.
func divided(nodes, cpus, cores int, mode plan.CacheMode) plan.State {
	st := bigHost(nodes, cpus)
	h := st.Host
	h.LLCs = nil
	for i := range h.Cores {
		if i%cores == 0 {
			h.LLCs = append(h.LLCs, topology.LLC{Level: 3, Size: topology.None})
		}
		k := &h.LLCs[len(h.LLCs)-1]
		k.CPUs = k.CPUs.Union(h.Cores[i].CPUs)
	}
	h.NumberLLCs()
	st.Policy.Caches = mode
	return st
}

// BenchmarkCaches is one decision of a mixed stream on a half full host whose nodes have several
// caches: 8 nodes of 8, and 64 nodes of 4 on 2,048 CPUs.
func BenchmarkCaches(b *testing.B) {
	for _, n := range []struct{ nodes, cpus, cores int }{{8, 512, 4}, {64, 2048, 4}} {
		st := divided(n.nodes, n.cpus, n.cores, plan.CachesPlace)
		name := fmt.Sprintf("%dnodes%dcaches", n.nodes, len(st.Host.LLCs))
		l := halfFull(st)
		b.Run(name, func(b *testing.B) { benchPlace(b, l, mixed) })
		b.Run(name+"/shared", func(b *testing.B) {
			benchPlace(b, l, func(i int) workload.Spec {
				s := mixed(i)
				s.Class = workload.Shared
				return s
			})
		})
	}
}

// TestDividedHosts: BenchmarkCaches measures on hosts with so many caches.
func TestDividedHosts(t *testing.T) {
	st := divided(8, 512, 4, plan.CachesPlace)
	if n := len(st.Host.LLCs); n != 64 {
		t.Errorf("%d caches, want 64", n)
	}
	l := NewLedger(st)
	r := l.Place(Request{Spec: vm("a", 8, plantest.GiB)})
	if got := r.Placement.Caches.Len(); got != 1 {
		t.Errorf("8 vCPUs in %d caches", got)
	}
}
