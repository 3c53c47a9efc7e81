package openstack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Flavor is one of homenode's as Nova has it.
type Flavor struct {
	Name       string     `json:"name"`            // name of the flavor
	VCPUs      int        `json:"vcpus"`           // vCPUs of a guest
	MemoryMiB  int64      `json:"memory_mib"`      // memory of a guest, MiB
	Properties []Property `json:"properties"`      // extra specs, in the order to read them
	Unfit      string     `json:"unfit,omitempty"` // why Nova cannot have it here; absent when it can
}

// Property is an extra spec.
type Property struct {
	Key   string `json:"key"`   // such as hw:cpu_policy
	Value string `json:"value"` // such as dedicated
}

// Flavors is a catalogue as Nova has it, for hosts such as h.
func (s *Host) Flavors(h *topology.Host, c guest.Catalogue) []Flavor {
	var out []Flavor
	for i := range c {
		out = append(out, s.flavor(h, &c[i]))
	}
	return out
}

func (s *Host) flavor(h *topology.Host, f *guest.Flavor) Flavor {
	out := Flavor{Name: f.Name, VCPUs: f.VCPUs, MemoryMiB: int64(f.Memory) / 1024, Properties: []Property{}}
	set := func(key, format string, value any) {
		out.Properties = append(out.Properties, Property{key, fmt.Sprintf(format, value)})
	}
	set("hw:cpu_policy", "%s", f.Class)
	if own := f.Class == workload.Dedicated || f.Class == guest.Mixed; own {
		threads := slices.ContainsFunc(h.Cores, func(c topology.Core) bool { return c.CPUs.Len() > 1 })
		switch {
		case f.SMT == workload.SMTIsolate && threads: // it forbids the trait HW_CPU_HYPERTHREADING
			out.Unfit = "Nova gives smt: isolate only hosts without SMT"
		case f.SMT == workload.SMTRequire && !threads:
			out.Unfit = "Nova gives smt: require only hosts with SMT"
		}
		set("hw:cpu_thread_policy", "%s", f.SMT)
		switch f.Emulator {
		case guest.Housekeeping: // on cpu_shared_set, or where there is none on the guest's own CPUs
			set("hw:emulator_threads_policy", "%s", "share")
		case guest.Isolate:
			set("hw:emulator_threads_policy", "%s", "isolate")
		}
	} else {
		// As homenode weighs guests of its own; libvirt takes 10000 at most with cgroup v2.
		set("quota:cpu_shares", "%d", min(10000, max(2, 100*f.VCPUs*f.Importance/workload.DefaultImportance)))
	}
	if f.Class != workload.Dedicated && s.Shared.Empty() {
		out.Unfit = "this host has no CPUs for shared guests"
	}
	if !f.Realtime.Empty() {
		set("hw:cpu_realtime", "%s", "yes")
		set("hw:cpu_realtime_mask", "%s", f.Realtime)
	}
	switch {
	case f.Class == guest.Mixed && f.Realtime.Empty():
		set("hw:cpu_dedicated_mask", "%s", f.Own)
	case f.Class == guest.Mixed && !f.Realtime.Equal(f.Own):
		out.Unfit = "Nova has one mask for the vCPUs of a mixed guest that have a CPU of their own and for those " +
			"under SCHED_FIFO"
	}
	page := f.HugePage
	if why := s.split(h, f, &page, set); why != "" {
		out.Unfit = why
	}
	if page > 0 {
		set("hw:mem_page_size", "%d", page)
	}
	if !f.OnlyNodes.Empty() {
		out.Unfit = "Nova cannot say which nodes of a host a guest may use (only_nodes)"
	}
	if f.MaxNodes > 0 {
		set("homenode:max_nodes", "%d", f.MaxNodes)
	}
	if f.Queues > 1 {
		set("hw:vif_multiqueue_enabled", "%s", "true")
	}
	if f.Network > 0 { // KiB/s, as libvirt's <bandwidth>
		set("quota:vif_inbound_average", "%d", f.Network)
		set("quota:vif_outbound_average", "%d", f.Network)
		if b := f.NetworkBurst; b.Peak > 0 {
			set("quota:vif_inbound_peak", "%d", b.Peak)
			set("quota:vif_outbound_peak", "%d", b.Peak)
		}
		if b := f.NetworkBurst; b.Size > 0 {
			set("quota:vif_inbound_burst", "%d", b.Size)
			set("quota:vif_outbound_burst", "%d", b.Size)
		}
	}
	if f.NVMe > 0 {
		out.Unfit = "it has NVMe drives handed through: which they are, [pci] device_spec and alias of Nova say"
	}
	return out
}

// split says on how many nodes a guest is, and what it has on each; the page size of its cells
// is in page then. It is why Nova cannot have that here, or "".
func (s *Host) split(h *topology.Host, f *guest.Flavor, page *topology.KiB,
	set func(key, format string, value any)) (why string) {
	composed := f.Composed()
	switch {
	case composed != nil:
		set("hw:numa_nodes", "%d", len(composed.Cells))
		if len(composed.Cells) > len(h.Nodes) {
			return fmt.Sprintf("it has %d cells, and this host %s", len(composed.Cells),
				words.Count(len(h.Nodes), "node"))
		}
		*page = composed.Cells[0].HugePage
		for i, c := range composed.Cells {
			if len(composed.Cells) > 1 {
				set(fmt.Sprintf("hw:numa_cpus.%d", i), "%s", c.VCPUs)
				set(fmt.Sprintf("hw:numa_mem.%d", i), "%d", int64(c.Memory)/1024)
			}
			own := c.VCPUs.Intersect(composed.Own).Len()
			on := *f
			if on.HugePage = c.HugePage; own == 0 {
				on.Emulator = guest.Share
			}
			switch {
			case c.HugePage != *page:
				return "Nova has one page size for all cells of a guest"
			case !slices.ContainsFunc(h.Nodes, func(n topology.Node) bool { return s.holds(&n, &on, own, c.Memory) }):
				return fmt.Sprintf("%s and %s of its cell %d do not fit on a node", words.Count(own, "dedicated CPU"),
					words.Size(c.Memory), i)
			}
		}
	case f.Class == workload.Dedicated:
		nodes, why := s.nodes(h, f)
		set("hw:numa_nodes", "%d", max(1, nodes))
		return why
	case f.ExactNodes > 0:
		set("hw:numa_nodes", "%d", f.ExactNodes)
	}
	return ""
}

// nodes is the fewest nodes of h that hold a dedicated guest in equal parts, as Nova splits
// it, when nobody else is there; or why there are none.
func (s *Host) nodes(h *topology.Host, f *guest.Flavor) (count int, why string) {
	most := len(h.Nodes)
	if f.MaxNodes > 0 {
		most = min(most, f.MaxNodes)
	}
	for count = 1; count <= most; count++ {
		if f.ExactNodes > 0 && count != f.ExactNodes {
			continue
		}
		if f.VCPUs%count != 0 || f.Memory%topology.KiB(count) != 0 ||
			f.Memory/topology.KiB(count)%max(1024, f.HugePage) != 0 {
			continue
		}
		hold := 0
		for i := range h.Nodes {
			if s.holds(&h.Nodes[i], f, f.VCPUs/count, f.Memory/topology.KiB(count)) {
				hold++
			}
		}
		if hold >= count {
			return count, ""
		}
	}
	return 0, fmt.Sprintf("%s and %s do not fit in equal parts on %s at most", words.Count(f.VCPUs, "dedicated CPU"),
		words.Size(f.Memory), words.Count(most, "node"))
}

// holds reports whether a node that is empty has so many CPUs and so much memory.
func (s *Host) holds(n *topology.Node, f *guest.Flavor, vcpus int, memory topology.KiB) bool {
	own := n.CPUs.Intersect(s.Dedicated)
	cpus := own.Len()
	if f.Emulator == guest.Isolate {
		cpus-- // on the first of its nodes; one more on each asks a little too much
	}
	if cpus < vcpus {
		return false
	}
	if f.HugePage == 0 {
		return n.Memory < 0 || n.Memory >= memory
	}
	for _, p := range n.HugePages {
		if p.Size == f.HugePage {
			return topology.KiB(p.Total)*p.Size >= memory
		}
	}
	return false
}

// Script is a shell script that makes the flavors with OpenStack's client, and changes those
// that are there.
func Script(all []Flavor) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# Written by homenode openstack export: run it once, with the credentials of an " +
		"administrator.\n" +
		"# --disk 0: their disks are volumes, whose limits are those of a volume type in Cinder.\nset -e\n")
	for _, f := range all {
		name := words.Shell(f.Name)
		b.WriteString("\n")
		if f.Unfit != "" {
			fmt.Fprintf(&b, "# %s: not for hosts such as this: %s.\n", words.Printable(f.Name), f.Unfit)
			continue
		}
		fmt.Fprintf(&b,
			"openstack flavor show %s >/dev/null 2>&1 ||\n\topenstack flavor create --vcpus %d --ram %d --disk 0 %s\n",
			name, f.VCPUs, f.MemoryMiB, name)
		b.WriteString("openstack flavor set")
		for _, p := range f.Properties {
			fmt.Fprintf(&b, " \\\n\t--property %s", words.Shell(p.Key+"="+p.Value))
		}
		fmt.Fprintf(&b, " %s\n", name)
	}
	return b.String()
}
