package hostprep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Reserve is the CPUs of the first perNode whole cores, with all their SMT siblings,
// of each node that has CPUs: those with the lowest numbers, where the kernel puts
// what it starts with. A node keeps one core at least for guests, so that one with
// a single core reserves none.
func Reserve(h *topology.Host, perNode int) topology.CPUSet {
	var all topology.CPUSet
	for _, n := range h.Nodes {
		var cores []topology.CPUSet
		for _, c := range h.Cores {
			if c.CPUs.Intersects(n.CPUs) {
				cores = append(cores, c.CPUs)
			}
		}
		slices.SortStableFunc(cores, func(a, b topology.CPUSet) int { return cmp.Compare(a.Min(), b.Min()) })
		for _, c := range cores[:max(0, min(perNode, len(cores)-1))] {
			all = all.Union(c)
		}
	}
	return all
}

// CheckReserve says what is wrong with a reserve on this host: nothing in it, CPUs
// that the host does not have or that are offline, or none left for guests.
func CheckReserve(h *topology.Host, reserve topology.CPUSet) error {
	off := reserve.Intersect(h.Offline)
	beyond := reserve.Minus(h.Online).Minus(off)
	switch {
	case reserve.Empty():
		return fmt.Errorf("no CPU is reserved: a host of %d CPUs keeps none for itself", h.Online.Len())
	case !beyond.Empty():
		return fmt.Errorf("CPUs %v are not on this host (it has %v)", beyond, h.Online)
	case !off.Empty():
		return fmt.Errorf("CPUs %v are offline", off)
	case h.Online.SubsetOf(reserve):
		return fmt.Errorf("CPUs %v leave none for guests", reserve)
	}
	return nil
}

// halves is the siblings of reserved CPUs that are not reserved themselves.
func halves(h *topology.Host, reserve topology.CPUSet) topology.CPUSet {
	var out topology.CPUSet
	for _, c := range h.Cores {
		if c.CPUs.Intersects(reserve) {
			out = out.Union(c.CPUs.Minus(reserve))
		}
	}
	return out
}

// bare is the nodes with CPUs of which none is reserved.
func bare(h *topology.Host, reserve topology.CPUSet) topology.NodeSet {
	return h.NodesWith(func(n *topology.Node) bool { return !n.CPUs.Empty() && !n.CPUs.Intersects(reserve) })
}

// InTheWay says what placed work forbids a reserve, or confining cgroups to
// it; none for nothing: dedicated work on the reserve, and work that homenode
// placed below one of the cgroups.
func InTheWay(placed []plan.Placement, reserve topology.CPUSet, cgroups []string) words.Reason {
	for _, p := range placed {
		if both := p.CPUs.Union(p.Idle).Intersect(reserve); p.Class == workload.Dedicated && !both.Empty() {
			return words.Because(words.ReserveTaken, both, p.Workload)
		}
		for _, cgroup := range cgroups {
			if strings.HasPrefix(string(p.Workload), cgroup+"/") && !p.CPUs.SubsetOf(reserve) {
				return words.Because(words.HomeInSlice, p.Workload, p.CPUs, cgroup, reserve)
			}
		}
	}
	return words.Reason{}
}
