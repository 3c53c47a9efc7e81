package place

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const (
	// cacheShare is the share of a thread's accesses that are to a line which another core has changed, of
	// those that leave its core: about three in eight.
	cacheShare = 0.375
	// cacheExtra is how much longer such a line takes from another cache of the node than from the own one, in
	// accesses to local memory, where it is not measured: 80 ns of 100 on EPYC. Their product is 0.3. Between
	// 0.2 and 0.4 the shared cases barely change (bench/placement).
	cacheExtra = 0.8
	// cacheMost bounds the cost of a vCPU all of whose partners are in other caches: a measurement on a busy
	// machine must not make a far node's memory look cheap.
	cacheMost = 0.6
	// cacheHoleWeight is per CPU left over in a cache that is broken: whole ones stay for the work that
	// needs them. It decides between nodes that are alike otherwise; larger values cost utility.
	cacheHoleWeight = 0.001
)

// crossingCost returns the cost of a vCPU all of whose partners are in other caches of its node, in accesses to
// local memory: by the measured latencies of cache lines (`homenode probe c2c`) and memory, else by cacheExtra.
func crossingCost(m *topology.Measured) float64 {
	extra := cacheExtra
	if m != nil && m.LineOwnNs > 0 && m.LineOtherNs > 0 {
		local, n := 0.0, 0
		for i, row := range m.LatencyNs {
			if i < len(row) && row[i] > 0 {
				local += row[i]
				n++
			}
		}
		if n > 0 {
			extra = (m.LineOtherNs - m.LineOwnNs) / (local / float64(n))
		}
	}
	return min(max(0, cacheShare*extra), cacheMost)
}

// weighCaches adds the cost of the last-level caches of a node for dedicated work that takes vcpus there.
func (w *want) weighCaches(l *Ledger, node, vcpus int, t *terms) {
	if vcpus <= 0 {
		return
	}
	squares, over := l.cpus.Divide(node, vcpus, w.SMT)
	t[caches] += cacheHoleWeight * float64(over)
	t[caches] += l.crossing * float64(vcpus) * (1 - squares/float64(vcpus*vcpus))
}

// placesCaches reports whether shared work is kept in few caches of its home.
func (l *Ledger) placesCaches() bool { return l.cpus.Divided && l.policy.Caches == plan.CachesPlace }

// cachesFor returns the caches of a home that shared work should be kept in. It returns none where the home has
// no such caches, and for work that is wider than a node.
func (w *want) cachesFor(l *Ledger, home []int) topology.CacheSet {
	if len(home) != 1 || !l.nodes[home[0]].Divided || w.Class != workload.Shared {
		return topology.CacheSet{}
	}
	return l.cpus.Caches(home[0], l.nodes[home[0]].shared, w.vcpus, w.partnersCaches(l, home))
}

// partnersCaches returns the caches of a home of the workloads that this one should be near.
func (w *want) partnersCaches(l *Ledger, home []int) (in topology.CacheSet) {
	for i := range w.Near {
		if w.Near[i].Workload == "" {
			continue
		}
		k, ok := l.find(w.Near[i].Workload)
		if !ok {
			continue
		}
		h := l.held[k]
		if h.Class == workload.Dedicated {
			in = in.Union(l.cpus.CachesOf(h.CPUs, home))
		} else {
			in = in.Union(h.Caches)
		}
	}
	return in
}

// renewCaches keeps the caches of shared work while they have CPUs for all its vCPUs. Where they have not, and where
// shared work is not kept in caches, it may use all of its home: others are chosen by what it was measured to want
// (core/control/concern/llc).
func (w *want) renewCaches(l *Ledger, p *plan.Placement, home []int) {
	if p.Caches.Empty() {
		return
	}
	kept := l.placesCaches() && len(home) == 1
	if !kept || l.cpus.OpenIn(home[0], p.Caches) < w.vcpus {
		p.Caches = topology.CacheSet{}
	}
}
