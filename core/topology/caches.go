package topology

import (
	"cmp"
	"slices"
)

// CacheID is the number of a last-level cache: the kernel's (cpuN/cache/indexM/id, the number that
// resctrl uses as well), which may have gaps, or its position by lowest CPU where the kernel gives
// no number, or the same number to several caches.
type CacheID int

// CacheSet is a set of last-level caches, written in the list format of cpuset(7).
type CacheSet = Set[CacheID]

// NumberLLCs sorts the caches by lowest CPU, and gives each its number and its nodes: for those that
// build a Host. An ID of None is none. The numbers that are there stay if all caches have one and no two have the same:
// a level 2 cache that is some CPU's last may have the number of a level 3 cache. Otherwise the position is the number.
func (h *Host) NumberLLCs() {
	byCPU := func(a, b LLC) int { return cmp.Compare(a.CPUs.Min(), b.CPUs.Min()) }
	slices.SortFunc(h.LLCs, byCPU)
	var seen CacheSet
	numbered := true
	for i := range h.LLCs {
		l := &h.LLCs[i]
		l.Nodes = h.NodesOf(l.CPUs)
		if l.ID < 0 || l.ID > MaxID || seen.Has(l.ID) {
			numbered = false
			continue
		}
		seen.Add(l.ID)
	}
	if numbered {
		return
	}
	for i := range h.LLCs {
		h.LLCs[i].ID = CacheID(i)
	}
}

// CachesOn returns the caches that divide nodes: all that have CPUs there. It returns none where
// every node has one cache, for then the nodes say it all, and where each cache serves one core
// alone (Arm hosts whose system-level cache the kernel does not list): there is nothing to share.
func (h *Host) CachesOn(nodes NodeSet) CacheSet {
	var on CacheSet
	divided := false
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if !nodes.Has(n.ID) {
			continue
		}
		count, shared := 0, false
		for k := range h.LLCs {
			l := &h.LLCs[k]
			if !l.CPUs.Intersects(n.CPUs) {
				continue
			}
			on.Add(l.ID)
			count++
			shared = shared || h.shares(l)
		}
		divided = divided || (count > 1 && shared)
	}
	if !divided {
		return CacheSet{}
	}
	return on
}

// CachesOf returns the caches that CPUs of a home are in; none where those are all that the home
// has, and where no caches divide it (CachesOn).
func (h *Host) CachesOf(cpus CPUSet, home NodeSet) CacheSet {
	on := h.CachesOn(home)
	if on.Empty() {
		return on
	}
	var in CacheSet
	for i := range h.LLCs {
		if l := &h.LLCs[i]; on.Has(l.ID) && l.CPUs.Intersects(cpus) {
			in.Add(l.ID)
		}
	}
	if in.Equal(on) {
		return CacheSet{}
	}
	return in
}

// shares reports whether a cache serves more than one core.
func (h *Host) shares(l *LLC) bool {
	byCPU := func(c Core, cpu CPUID) int { return cmp.Compare(c.CPUs.Min(), cpu) }
	at, _ := slices.BinarySearchFunc(h.Cores, l.CPUs.Min(), byCPU)
	return l.CPUs.Len() > 1 && (at == len(h.Cores) || !l.CPUs.SubsetOf(h.Cores[at].CPUs))
}
