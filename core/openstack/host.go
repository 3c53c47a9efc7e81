package openstack

import (
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// Host is what nova-compute is told of its host.
type Host struct {
	Dedicated  topology.CPUSet // for guests with CPUs of their own
	Shared     topology.CPUSet // for guests that float
	Overcommit float64         // vCPUs of those that one CPU may carry
	Memory     float64         // times that memory is promised
	Reserved   topology.KiB    // memory kept for the host, on all nodes together, and all memory of GPUs
	Pages      []Pages         // in use by others than guests
	Traits     []string
}

// Pages is huge pages of one size on one node.
type Pages struct {
	Node  topology.NodeID `json:"node"`     // node ID of the kernel
	Size  topology.KiB    `json:"size_kib"` // size of a page, KiB
	Count int64           `json:"count"`    // number of pages
}

// Of is the settings of a host under a policy. pages is the huge pages that others than
// guests use. Without a partition all CPUs are for guests that float: Nova gives no CPU to
// both.
func Of(h *topology.Host, p *plan.Policy, pages []Pages) Host {
	out := Host{Shared: h.Online.Minus(p.Reserved), Overcommit: max(1, p.Overcommit), Memory: p.MemoryRatio(),
		Pages: pages, Traits: traits(h)}
	if p.Split {
		out.Dedicated = p.Dedicated.Minus(p.Reserved).Intersect(h.Online)
		out.Shared = out.Shared.Minus(out.Dedicated)
	}
	for _, n := range h.Nodes {
		if n.OfGPU() { // Nova counts it as any memory of the host
			out.Reserved += max(0, n.Memory)
			continue
		}
		if n.Memory > 0 {
			out.Reserved += min(p.ReservedMemory, n.Memory)
		}
	}
	return out
}

// steps are the bandwidths that traits tell of, GiB/s: a host has the trait of each that
// it reaches.
var steps = []float64{10, 20, 50, 100, 200, 500}

// traits is how many nodes with CPUs a host has, how far the farthest two are apart by the
// firmware (SLIT, local is 10), and the bandwidth that every node was measured to have to its
// own memory.
func traits(h *topology.Host) []string {
	nodes, far := 0, int64(0)
	slowest := -1.0 // of those measured; 0 when one was not
	for i, n := range h.Nodes {
		if n.CPUs.Empty() {
			continue
		}
		nodes++
		for k := range h.Nodes {
			if i < len(h.Distances) && k < len(h.Distances[i]) && !h.Nodes[k].CPUs.Empty() {
				far = max(far, int64(h.Distances[i][k]))
			}
		}
		own := 0.0
		if m := h.Measured; m != nil && i < len(m.BandwidthMiBs) && i < len(m.BandwidthMiBs[i]) {
			own = m.BandwidthMiBs[i][i]
		}
		if slowest < 0 || own < slowest {
			slowest = own
		}
	}
	out := []string{fmt.Sprintf("CUSTOM_HOMENODE_NODES_%d", nodes)}
	if far > 0 {
		out = append(out, fmt.Sprintf("CUSTOM_HOMENODE_FARTHEST_%d", far))
	}
	for _, gib := range steps {
		if slowest >= gib*1024 {
			out = append(out, fmt.Sprintf("CUSTOM_HOMENODE_BANDWIDTH_%.0f", gib))
		}
	}
	return out
}

// ratio is a number as oslo.config's samples have it: 1.0.
func ratio(x float64) string {
	if x == float64(int64(x)) {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%g", x)
}

// Conf is the settings as a file for nova-compute.
func (s *Host) Conf() string {
	var b strings.Builder
	b.WriteString("# Written by homenode openstack export. For nova-compute on this host: a file of its own in\n" +
		"# /etc/nova/nova-compute.conf.d, or these lines in nova.conf; then start nova-compute anew.\n[DEFAULT]\n")
	promised := "memory is not promised twice"
	if s.Memory > 1 {
		promised = "times that memory is promised\n# (policy.memory_overcommit): when guests use all of theirs, the " +
			"host swaps, or the kernel ends some"
	}
	fmt.Fprintf(&b,
		"# Shared vCPUs that one CPU may carry (policy.overcommit); %s.\ncpu_allocation_ratio = "+
			"%g\nram_allocation_ratio = %s\n", promised, s.Overcommit, ratio(s.Memory))
	if s.Reserved > 0 {
		fmt.Fprintf(&b, "reserved_host_memory_mb = %d\n", (s.Reserved+1023)/1024)
	}
	if len(s.Pages) > 0 {
		b.WriteString("# Huge pages that others than guests use.\n")
	}
	for _, p := range s.Pages {
		fmt.Fprintf(&b, "reserved_huge_pages = node:%d,size:%d,count:%d\n", p.Node, p.Size, p.Count)
	}
	b.WriteString("\n[compute]\n")
	if !s.Dedicated.Empty() {
		fmt.Fprintf(&b, "cpu_dedicated_set = %s\n", s.Dedicated)
	} else {
		b.WriteString("# No CPU is for dedicated guests: homenode has no partition that keeps some for them.\n")
	}
	if !s.Shared.Empty() {
		fmt.Fprintf(&b, "cpu_shared_set = %s\n", s.Shared)
	} else {
		b.WriteString("# No CPU is for shared guests, by the partition.\n")
	}
	return b.String()
}

// Providers is the traits as a file that nova-compute finds in [compute]
// provider_config_location.
func (s *Host) Providers() string {
	var b strings.Builder
	b.WriteString("# Written by homenode openstack export: /etc/nova/provider_config/homenode.yaml. A flavor asks\n" +
		"# for a trait by the property trait:NAME=required.\nmeta:\n  schema_version: '1.0'\nproviders:\n" +
		"  - identification:\n      uuid: $COMPUTE_NODE\n    traits:\n      additional:\n")
	for _, t := range s.Traits {
		fmt.Fprintf(&b, "        - %s\n", t)
	}
	return b.String()
}
