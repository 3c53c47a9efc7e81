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
