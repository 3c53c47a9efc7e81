package doctor

import (
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// caches judges the last-level caches of the nodes: what work gains by living in one of several.
func (f *facts) caches() []measure.Finding {
	all := f.d.Host.Caches
	node, within := f.mostCaches()
	if len(within) < 2 {
		return f.noCacheToChoose(len(all))
	}
	return append([]measure.Finding{f.manyCaches(node, within)}, f.cacheAware()...)
}

// mostCaches returns the position of the node with the most last-level caches that serve several cores,
// and those caches.
func (f *facts) mostCaches() (node int, within []measure.LastCache) {
	for i := range f.d.Nodes {
		var here []measure.LastCache
		for _, c := range f.d.Host.Caches {
			if c.CPUs.Len() > 1 && c.CPUs.Intersects(f.d.Nodes[i].CPUs) {
				here = append(here, c)
			}
		}
		if len(here) > len(within) {
			node, within = i, here
		}
	}
	return node, within
}

// noCacheToChoose is the finding for a machine of one node whose CPUs share one cache: no place on it is
// nearer than another. Machines of several nodes have their nodes to choose from.
func (f *facts) noCacheToChoose(caches int) []measure.Finding {
	s := f.d.Settings
	if f.nodes > 1 || s == nil || s.CacheAware == nil { // older documents list no caches
		return nil
	}
	says := "one node with one last-level cache: all CPUs are equally near to memory and to each other, " +
		"so no home is better than another"
	severity := measure.Healthy
	switch {
	case caches == 0:
		severity = measure.Info
		says = "one node, and the kernel lists no last-level cache, as in many guests: " +
			"whether some CPUs are nearer to each other is unknown"
	case caches > 1:
		says = "one node, and a last-level cache for each core: no two cores share one, so no home is better than " +
			"another"
	}
	return []measure.Finding{{
		Subject: "caches", Severity: severity, Says: says,
		Advice: "homenode still gives dedicated work and guests CPUs of their own, runs batch work on idle CPUs, " +
			"and keeps interrupts off dedicated CPUs",
	}}
}

// manyCaches reports the cost of a cache line from another cache of the node, and its source.
func (f *facts) manyCaches(node int, within []measure.LastCache) measure.Finding {
	most := slices.MaxFunc(within, func(a, b measure.LastCache) int { return a.CPUs.Len() - b.CPUs.Len() })
	size := words.Count(most.CPUs.Len(), "CPU")
	each := size
	if most.Bytes > 0 {
		each = words.Bytes(most.Bytes) + " and " + size
	}
	says := fmt.Sprintf("node%d has %d last-level caches, of up to %s each; ", f.d.Nodes[node].ID, len(within), each)
	out := measure.Finding{Subject: "caches", Severity: measure.Info}
	own, other := f.cacheLines()
	switch {
	case own == 0 || other == 0:
		out.Says = says + "the cost of a cache line from another cache of the node is not measured"
		out.Advice = "measure it (homenode probe c2c); threads that exchange data gain where they share a cache"
	case other/own <= 1+f.lim.Flat:
		out.Says = says +
			fmt.Sprintf("a cache line costs the same from its own cache (%.0f ns) and from another (%.0f ns), "+
				"measured core to core", own, other)
		out.Advice = "threads that exchange data gain nothing here; " +
			"work with a working set of its own gains by a cache for itself"
	default:
		out.Says = says + fmt.Sprintf("a cache line costs %.0f ns from another cache of the node "+
			"and %.0f ns from its own (×%.1f), measured core to core", other, own, other/own)
		out.Advice = fmt.Sprintf("work of up to %s whose threads exchange data gains by one cache; "+
			"dedicated work gets the fewest caches (homenode help caches)", size)
	}
	return out
}

// cacheLines returns the median latency of a cache line, ns, between cores of one cache and between caches
// of one node; 0 where no pair was measured, or the measurement is not believed.
func (f *facts) cacheLines() (own, other float64) {
	if f.noisy != "" {
		return 0, 0
	}
	return f.d.CacheLines()
}

// cacheAware reports the state of the kernel's cache-aware scheduling.
func (f *facts) cacheAware() []measure.Finding {
	if f.d.Settings == nil || f.d.Settings.CacheAware == nil {
		return nil
	}
	kernel := *f.d.Settings.CacheAware
	out := measure.Finding{Subject: "cache-aware scheduling", Severity: measure.Info}
	const keeps = "the kernel keeps the threads of one process in one cache while there is room; " +
		"homenode leaves those to it"
	switch kernel.State {
	case topology.CacheAwareOn:
		out.Severity = measure.Healthy
		out.Says = "on (" + kernel.From + "): " + keeps
	case topology.CacheAwareBuiltIn:
		out.Severity = measure.Healthy
		out.Says = "built in (" + kernel.From + ") and on unless switched off, which debugfs alone shows: " + keeps
	case topology.CacheAwareOff:
		out.Says = "off (" + kernel.From + "): the kernel spreads the threads of a process over all caches of a node"
		out.Advice = "echo 1 > /" + topology.CacheAwareFile + "; homenode trial measures whether it helps your load"
	case topology.CacheAwareNone:
		out.Says = "this kernel has none (" + kernel.From +
			"): it spreads the threads of a process over all caches of a node"
		out.Advice = "Linux 7.2 and later have it (CONFIG_SCHED_CACHE)"
	default:
		out.Says = "not known: neither debugfs nor the kernel's configuration can be read"
		out.Advice = "run as root with debugfs at /sys/kernel/debug"
	}
	return []measure.Finding{out}
}
