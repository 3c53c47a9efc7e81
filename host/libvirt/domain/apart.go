package domain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// pinnedByOthers is CPUs that somebody else keeps for the guest alone beside its home: of
// vCPUs that are pinned to one CPU each where others float (Nova's mixed policy), and of
// its emulator and IOThreads where they have a core, or a thread of one, to themselves
// (Nova's emulator_threads_policy isolate). A wider emulatorpin is a set that many guests
// share.
func (p *pinning) pinnedByOthers(h *topology.Host, s *guest.Guest) []plan.Placement {
	var own topology.CPUSet
	if s.Home.Placement.Class != workload.Dedicated { // else its home has them
		own = p.alone.Intersect(h.Online)
	}
	var apart topology.CPUSet
	for _, set := range append(p.iothreads, p.emulator) {
		if within(h, set) && !set.Intersects(p.cpus) {
			apart = apart.Union(set.Intersect(h.Online))
		}
	}
	var out []plan.Placement
	for id, cpus := range map[workload.ID]topology.CPUSet{guest.PinnedID(s.Name): own,
		guest.EmulatorID(s.Name): apart} {
		if !cpus.Empty() {
			out = append(out, *guest.OwnCPUs(h, id, s.Spec.Importance, cpus, topology.CPUSet{}))
		}
	}
	if len(out) == 2 && out[0].Workload > out[1].Workload {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// within reports whether a set lies within one core.
func within(h *topology.Host, set topology.CPUSet) bool {
	if set.Len() <= 1 {
		return !set.Empty()
	}
	return slices.ContainsFunc(h.Cores, func(c topology.Core) bool { return set.SubsetOf(c.CPUs) })
}

// drop takes out of a binding what the host does not have, and says in words what that
// was; "" for nothing. libvirt takes such definitions, and the kernel a set of which one
// CPU is there.
func (p *pinning) drop(h *topology.Host) string {
	nodes := h.AllNodes()
	all := h.Online.Union(h.Offline)
	var missing []string
	if cpus := p.cpus.Union(p.emulator).Minus(all); !cpus.Empty() {
		missing = append(missing, fmt.Sprintf("CPUs %v", cpus))
	}
	if n := p.nodes.Minus(nodes); !n.Empty() {
		missing = append(missing, fmt.Sprintf("nodes %v", n))
	}
	if len(missing) == 0 {
		return ""
	}
	p.single = p.single && p.cpus.SubsetOf(all)
	for _, set := range []*topology.CPUSet{&p.cpus, &p.bound, &p.emulator, &p.alone} {
		*set = set.Intersect(all)
	}
	if p.cpus.Empty() {
		p.cpus = h.Online
	}
	p.nodes = p.nodes.Intersect(nodes)
	return strings.Join(missing, " and ")
}
