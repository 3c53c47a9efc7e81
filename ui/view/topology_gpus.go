package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/topology"
)

// gpus shows the GPUs, the switch that each is below, and how close each is to other GPUs, NICs
// and NVMe drives, nearest first.
func (d *drawing) gpus() {
	all := d.host.GPUs()
	if len(all) == 0 {
		return
	}
	d.heading("GPUs", "")
	for i := range all {
		g := &all[i]
		text := fmt.Sprintf("%-8s", g.GPU)
		if g.Node == topology.None {
			text += "node ?"
		} else {
			text += nodeName(g.Node)
		}
		text += "  " + g.PCI
		if above := g.Switch(); above != "" {
			text += "  switch " + above
		}
		if g.Name != g.PCI {
			text += "  " + g.Name
		}
		d.line(text)
		for _, more := range []string{g.Model, g.UUID} {
			if more != "" {
				d.line("        " + d.Dim(more))
			}
		}
	}
	d.nearGPUs(all)
}

// closeness are the relations that are shown, with their meaning. Devices on other nodes are not listed.
var closeness = []struct {
	relation topology.Relation
	means    string
}{
	{topology.PIX, "below the same PCIe switch"},
	{topology.PXB, "across several PCIe switches"},
	{topology.PHB, "below the same host bridge"},
	{topology.NodeWide, "on the same NUMA node"},
}

// nearGPUs shows what is close to each GPU, as nvidia-smi topo -m relates them.
func (d *drawing) nearGPUs(all []topology.Device) {
	used := map[topology.Relation]bool{}
	headed := false
	for i := range all {
		peers := d.host.Peers(&all[i], topology.GPU, topology.Accel, topology.NIC, topology.NVMe)
		label := all[i].GPU
		for _, c := range closeness {
			var names []string
			for _, p := range peers {
				if p.Relation == c.relation {
					names = append(names, cmp.Or(p.Device.GPU, p.Device.Name))
				}
			}
			if len(names) == 0 {
				continue
			}
			if !headed {
				others := ""
				if len(d.host.Nodes) > 1 {
					others = " (all else is on other nodes: SYS)"
				}
				d.heading("Near GPUs", others)
				headed = true
			}
			names = shorten(names)
			d.wrapped(fmt.Sprintf("%-8s%-5s ", label, c.relation), names, " ")
			label = ""
			used[c.relation] = true
		}
	}
	for _, c := range closeness {
		if used[c.relation] {
			d.line(d.Dim(fmt.Sprintf("        %-5s %s", c.relation, c.means)))
		}
	}
}

// shorten replaces all but a few names by their number: hosts with SR-IOV have hundreds.
func shorten(names []string) []string {
	if len(names) <= maxChips+1 {
		return names
	}
	return append(slices.Clone(names[:maxChips]), fmt.Sprintf("and %d more", len(names)-maxChips))
}
