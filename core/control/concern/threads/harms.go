package threads

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// harmsKey names the line of history on work that NUMA balancing would harm.
const harmsKey = "sampling harms"

// harms returns why NUMA balancing of the whole host would harm work that runs, none when it would not. Each of its
// samples unmaps memory. A guest's second-level page tables lose the same memory each time (kvm_unmap_hva_range), and
// where the guest is larger than a node most of what it then faults is far: guests of 1.5 TiB have stalled for seconds
// (cloud-hypervisor#7574). The memory of work with a passed-through device is pinned for it: it is sampled at the
// same cost and can never move.
func (t *turn) harms() words.Reason {
	memory, cpus := largestNode(t.Snapshot.Host)
	for i := range t.Snapshot.Observations {
		o := &t.Snapshot.Observations[i]
		for _, l := range t.Links[o.ID] {
			if l.Kind == workload.ByVFIO {
				return words.Because(words.PassedThrough, o.ID, l.Device)
			}
		}
		vcpus := countVCPUs(o)
		if vcpus == 0 { // no guest
			continue
		}
		size := workload.Total(o.Memory)
		if size > memory || vcpus > cpus {
			return words.Because(words.GuestWider, o.ID, vcpus, size, cpus, memory)
		}
	}
	return words.Reason{}
}

// largestNode is the most memory, and the most CPUs, that a node with CPUs has.
func largestNode(h *topology.Host) (memory topology.KiB, cpus int) {
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if n.CPUs.Empty() {
			continue
		}
		memory = max(memory, n.Memory)
		cpus = max(cpus, n.CPUs.Len())
	}
	return memory, cpus
}

// countVCPUs is how many vCPUs a guest has; 0 for what is no guest.
func countVCPUs(o *workload.Observation) int {
	seen := map[int]bool{}
	for _, x := range o.VCPUs {
		seen[x.VCPU] = true
	}
	return max(len(seen), len(o.VCPUSets))
}
