package workload

import "github.com/homenode/homenode/core/topology"

// Placement is where one workload belongs.
type Placement struct {
	Workload   ID
	Class      Class
	Importance int
	VCPUs      int              // CPUs it wants to keep busy at once
	Home       topology.NodeSet // nodes that hold its CPUs and memory
	CPUs       topology.CPUSet  // CPUs it may run on
	Pins       []topology.CPUID // dedicated: the CPU of each vCPU; nil otherwise
	Idle       topology.CPUSet  // dedicated: SMT siblings held so that nobody runs there (isolate, require)
	Memory     []NodeMemory     // booked, rising by node; sums to what the Spec wants
	Asked      topology.KiB     // memory the Spec wants; 0 when not told
	HugePage   topology.KiB     // page size of the booking; 0 for ordinary pages
	Within     topology.NodeSet // batch: the nodes it may use; empty means any
	Bound      bool             // memory is bound to Home (strict); preferred there otherwise
	Bandwidth  int64            // memory bandwidth booked, MiB/s
	Start      uint64           // of a process workload: start time of its root process, for PIDs are reused
	// Caches is the last-level caches of Home that its CPUs are in; empty means all of them. It is
	// empty on hosts whose nodes have one cache each.
	Caches topology.CacheSet `json:",omitzero"`
}

// CachesOn returns the caches that the placement is kept in on a host; none means all of its home's.
// Those of dedicated work follow from its CPUs, for many places hand out such CPUs.
func (p *Placement) CachesOn(h *topology.Host) topology.CacheSet {
	if p.Class != Dedicated || h == nil {
		return p.Caches
	}
	return h.CachesOf(p.CPUs, p.Home)
}

// MemoryNodes is where a guest's memory may lie: where it is booked, or, when its size
// is not known, the home.
func (p *Placement) MemoryNodes() topology.NodeSet {
	var nodes topology.NodeSet
	for _, m := range p.Memory {
		if m.KiB > 0 {
			nodes.Add(m.Node)
		}
	}
	if nodes.Empty() {
		return p.Home
	}
	return nodes
}
