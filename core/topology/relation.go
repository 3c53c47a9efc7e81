package topology

import (
	"cmp"
	"slices"
	"strings"
)

// Relation is how close two devices are, in the words of `nvidia-smi topo -m`.
type Relation string

// Relations, nearest first.
const (
	SameDevice Relation = "X"    // one device
	PIX        Relation = "PIX"  // at most one PCIe switch between them
	PXB        Relation = "PXB"  // several PCIe switches, no host bridge
	PHB        Relation = "PHB"  // a PCIe host bridge, typically the CPU
	NodeWide   Relation = "NODE" // several host bridges of one NUMA node
	SYS        Relation = "SYS"  // different NUMA nodes
	NoRelation Relation = "?"    // a node is unknown
)

// relations are in the order of nearness.
var relations = []Relation{SameDevice, PIX, PXB, PHB, NodeWide, SYS, NoRelation}

// bridges returns the bridges above a device, the nearest to the root first.
func (d *Device) bridges() []string {
	if d.Bridges == "" {
		return nil
	}
	return strings.Split(d.Bridges, "/")
}

// Switch returns the PCI address of the nearest PCIe switch above a device: that of its upstream
// port. Below a root port a switch has two bridges in a row, its upstream port and a downstream
// port (PCI Express Base Specification, 1.3.3). "" without a switch.
func (d *Device) Switch() string {
	all := d.bridges()
	if len(all) < 3 {
		return ""
	}
	return all[len(all)-2]
}

// Relate returns how close two devices are.
func Relate(a, b *Device) Relation {
	if a.PCI != "" && a.PCI == b.PCI {
		return SameDevice
	}
	if a.Root != "" && a.Root == b.Root {
		return byBridges(a.bridges(), b.bridges())
	}
	switch {
	case a.Node == None || b.Node == None:
		return NoRelation
	case a.Node == b.Node:
		return NodeWide
	}
	return SYS
}

// byBridges relates two devices below one root by the bridges above them. Functions of one card
// have the same bridges. Below one switch each has one bridge more, a downstream port.
func byBridges(a, b []string) Relation {
	common := 0
	for common < len(a) && common < len(b) && a[common] == b[common] {
		common++
	}
	below := max(len(a), len(b)) - common
	switch {
	case common == 0:
		return PHB
	case below <= 1:
		return PIX
	}
	return PXB
}

// Peer is a device and how close it is to another one.
type Peer struct {
	Device   Device
	Relation Relation
}

// Peers returns the other devices of some kinds, the nearest first: below the same switch, below
// the same root, on the node, on the other nodes of the socket, elsewhere.
func (h *Host) Peers(of *Device, kinds ...DeviceKind) []Peer {
	var out []Peer
	seen := map[string]bool{of.PCI: true}
	for i := range h.Devices {
		d := &h.Devices[i]
		if seen[d.PCI] || !slices.Contains(kinds, d.Kind) {
			continue
		}
		seen[d.PCI] = true
		out = append(out, Peer{*d, Relate(of, d)})
	}
	home := h.packageOf(of.Node)
	away := func(p Peer) int {
		if home != None && h.packageOf(p.Device.Node) == home {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(x, y Peer) int {
		return cmp.Or(
			cmp.Compare(slices.Index(relations, x.Relation), slices.Index(relations, y.Relation)),
			cmp.Compare(away(x), away(y)),
			cmp.Compare(x.Device.PCI, y.Device.PCI))
	})
	return out
}

// packageOf returns the socket of a node, None when unknown.
func (h *Host) packageOf(id NodeID) PackageID {
	n := h.Node(id)
	if n == nil {
		return None
	}
	return n.Package
}
