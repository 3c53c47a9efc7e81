package view

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// typeOf names the type of memory of a node.
func typeOf(n *topology.Node) string {
	if n.Type == "" {
		return ""
	}
	return ", " + MemoryType(string(n.Type))
}

// MemoryType names a type of memory, or memory without CPUs of unknown type.
func MemoryType(of string) string {
	if of == string(topology.Special) {
		return "memory without CPUs"
	}
	return topology.MemoryType(of).Words()
}

// totals returns the memory of a host, in all and free, and that of its GPUs, which ordinary work does not get.
func totals(h *topology.Host) (memory, free, ofGPUs topology.KiB) {
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if n.OfGPU() {
			ofGPUs += max(0, n.Memory)
			continue
		}
		memory += max(0, n.Memory)
		switch {
		case n.Free == topology.None:
			free = topology.None
		case free != topology.None:
			free += n.Free
		}
	}
	return memory, free, ofGPUs
}

// tiers prints the evidence for the type of each memory without CPUs, and what the kernel does with its tiers.
func (d *drawing) tiers() {
	headed := false
	for i := range d.host.Nodes {
		n := &d.host.Nodes[i]
		if len(n.Evidence) == 0 {
			continue
		}
		if !headed {
			d.heading("Memory without CPUs", "")
			headed = true
		}
		name := cmp.Or(MemoryType(string(n.Type)), "unknown")
		label := fmt.Sprintf("%-*s%s: ", d.nameWidth, nodeName(n.ID), name)
		d.wrapped(label, strings.Fields(strings.Join(n.Evidence, "; ")), " ")
	}
	if !d.host.GPUNodes().Empty() {
		d.line("Only a workload that names its node gets memory of a GPU.")
	}
	d.interleave()
	t := &d.host.Tiering
	if len(t.Tiers) < 2 && !t.Demotion {
		return
	}
	var parts []string
	for _, tier := range t.Tiers {
		parts = append(parts, fmt.Sprintf("%d: %s", tier.ID, nodeList(tier.Nodes)))
	}
	text := "the kernel moves cold pages to slower tiers, and nothing fetches them back but the kernel"
	switch {
	case !t.Demotion:
		text = "the kernel moves no pages between them (/sys/kernel/mm/numa/demotion_enabled is false)"
	case t.Promotion:
		text = "the kernel moves cold pages to slower tiers and hot ones back"
	}
	d.line("")
	d.wrapped(d.Bold("tiers")+"  ", strings.Fields(strings.Join(parts, "; ")+". "+strings.ToUpper(text[:1])+text[1:]+
		"."), " ")
}

// interleave prints weights for bandwidth-bound work, where there is memory without CPUs.
func (d *drawing) interleave() {
	for i := range d.host.Nodes {
		bandwidth, source := d.host.InterleaveFrom(i)
		weights, reached := topology.Interleave(bandwidth)
		var parts []string
		nodes := topology.NodeSet{}
		apart := false
		for j, w := range weights {
			n := &d.host.Nodes[j]
			if w == 0 {
				continue
			}
			parts = append(parts, fmt.Sprintf("%s %d", nodeName(n.ID), w))
			nodes.Add(n.ID)
			apart = apart || n.Apart()
		}
		if !apart || len(parts) < 2 {
			continue
		}
		text := fmt.Sprintf("weights %s reach %.0f %% of the bandwidth of all (%s). Write them to "+
			"/sys/kernel/mm/mempolicy/weighted_interleave/nodeN; `homenode run -w %s` uses them.",
			strings.Join(parts, ", "), 100*reached, source, nodes)
		d.wrapped(fmt.Sprintf("interleaved from %s: ", nodeName(d.host.Nodes[i].ID)), strings.Fields(text), " ")
	}
}
