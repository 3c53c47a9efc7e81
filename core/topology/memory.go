package topology

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// MemoryType is the technology of a node's memory.
type MemoryType string

// Types of memory. "" is not known.
const (
	TypeDRAM MemoryType = "dram"
	TypeHBM  MemoryType = "hbm"  // about DRAM's latency, a multiple of its bandwidth
	TypeCXL  MemoryType = "cxl"  // memory behind a CXL link
	TypePMEM MemoryType = "pmem" // persistent memory
	TypeGPU  MemoryType = "gpu"  // a GPU's own memory that CPUs can reach
)

// Words returns the type as people say it: "GPU memory", "CXL"; "" for one that is not known.
func (t MemoryType) Words() string {
	switch t {
	case TypePMEM:
		return "persistent memory"
	case TypeGPU:
		return "GPU memory"
	}
	return strings.ToUpper(string(t))
}

// MemoryTypes is all known types.
var MemoryTypes = []MemoryType{TypeDRAM, TypeHBM, TypeCXL, TypePMEM, TypeGPU}

const (
	// gpuDistance is the SLIT distance from the nearest CPUs that says GPU: POWER9 with V100 and
	// Grace report 80, CXL and persistent memory 14 to 34.
	gpuDistance = 80

	// Published latency and bandwidth over those of the nearest DRAM: CXL 1.5 to 3 times the latency, persistent
	// memory 2 to 4 times with a fraction of the bandwidth, HBM about DRAM's latency with a multiple of its
	// bandwidth (docs/design/topology.md).
	slowLatency  = 1.3
	pmemLatency  = 3.5
	hbmLatency   = 1.5
	hbmBandwidth = 1.5

	daxDir   = "sys/bus/dax/devices"
	tierDir  = "sys/devices/virtual/memory_tiering"
	blockDir = "sys/devices/system/memory"

	// maxDax bounds the DAX devices and GPUs that are read.
	maxDax = 1024
)

// MemoryType returns the type of the node's memory: its Type, or DRAM where it has CPUs.
func (n *Node) MemoryType() MemoryType {
	if n.Type == "" && n.Kind == DRAM {
		return TypeDRAM
	}
	return n.Type
}

// OfGPU reports whether the node is a GPU's own memory. Only work that names the node may have it: the GPU's
// driver hands this memory out, and pages of other work take it from the GPU.
func (n *Node) OfGPU() bool { return n.Type == TypeGPU }

// Apart reports whether the node has no CPUs and memory other than DRAM: CXL, HBM, persistent or a GPU's. Such a node
// is in a home only where work names it or DRAM is short. Memory without CPUs of unknown type counts as DRAM.
func (n *Node) Apart() bool { return n.Kind == Special && n.Type != "" && n.Type != TypeDRAM }

// evidence is one thing known of a node's memory, and the type that it says, "" for none.
type evidence struct {
	of   MemoryType
	text string
}

// settle gives a node the type of the first evidence that says one, and all texts.
func (n *Node) settle(all []evidence) {
	for _, e := range all {
		n.Type = cmp.Or(n.Type, e.of)
		if !slices.Contains(n.Evidence, e.text) {
			n.Evidence = append(n.Evidence, e.text)
		}
	}
}

// readMemoryTypes reads the evidence for the memory of nodes without CPUs: the driver first, then the
// kernel's resource map, then PCI devices on the node. SettleTypes does the rest.
func readMemoryTypes(t *tree, h *Host) {
	special := func(n *Node) bool { return n.Kind == Special }
	if !slices.ContainsFunc(h.Nodes, func(n Node) bool { return special(&n) }) {
		return
	}
	byGPU := t.nvidiaNodes()
	byDax := t.daxNodes()
	regions := t.regions()
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if !special(n) {
			continue
		}
		n.settle(byGPU[n.ID])
		n.settle(byDax[n.ID])
		if e, ok := t.regionOf(n.ID, regions); ok {
			n.settle([]evidence{e})
		}
		n.settle(deviceEvidence(t, h, n.ID))
	}
}

// nvidiaNodes returns the nodes that NVIDIA's driver names as memory of its GPUs.
func (t *tree) nvidiaNodes() map[NodeID][]evidence {
	out := map[NodeID][]evidence{}
	t.eachNVIDIA(func(pci string, node NodeID) {
		out[node] = append(out[node], evidence{TypeGPU, "NVIDIA's driver says it is memory of GPU " + pci})
	})
	return out
}

// eachNVIDIA calls yield for each GPU whose memory NVIDIA's driver says is a node:
// "Node: 255" in /proc/driver/nvidia/gpus/PCI/numa_status.
func (t *tree) eachNVIDIA(yield func(pci string, node NodeID)) {
	names, err := t.names(nvidiaDir)
	if err != nil {
		return
	}
	for _, pci := range names[:min(len(names), maxDax)] {
		if !isPCIAddress(pci) {
			continue
		}
		text, ok := t.optional("devices", nvidiaDir+"/"+pci+"/numa_status")
		if !ok {
			continue
		}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(line, ":")
			if strings.TrimSpace(key) != "Node" {
				continue
			}
			if id, err := parseID(strings.TrimSpace(value)); err == nil {
				yield(pci, NodeID(id))
			}
		}
	}
}

// daxNodes returns the nodes with memory of a DAX device (drivers/dax/kmem.c), and the parent of that
// device: a CXL region, an NVDIMM, a PCI function, or memory that the firmware set aside.
func (t *tree) daxNodes() map[NodeID][]evidence {
	names, err := t.names(daxDir)
	if err != nil {
		return nil
	}
	out := map[NodeID][]evidence{}
	for _, name := range names[:min(len(names), maxDax)] {
		if !isDax(name) {
			continue
		}
		text, ok := t.optional("devices", daxDir+"/"+name+"/target_node")
		if !ok {
			continue
		}
		id, err := parseID(text)
		if err != nil {
			continue
		}
		target, err := fs.ReadLink(t.fsys, daxDir+"/"+name)
		if err != nil {
			continue
		}
		e := t.daxEvidence(name, target)
		out[NodeID(id)] = append(out[NodeID(id)], e)
	}
	return out
}

// isDax reports whether a name is one that the kernel gives a DAX device: dax0.0.
func isDax(name string) bool {
	region, device, ok := strings.Cut(strings.TrimPrefix(name, "dax"), ".")
	_, err := parseID(region)
	_, err2 := parseID(device)
	return ok && strings.HasPrefix(name, "dax") && err == nil && err2 == nil
}

func (t *tree) daxEvidence(name, target string) evidence {
	pci := ""
	for part := range strings.SplitSeq(target, "/") {
		_, nvdimm := cutNumber(part, "ndbus")
		_, region := cutNumber(part, "dax_region")
		switch {
		case nvdimm:
			return evidence{TypePMEM, name + " is on the NVDIMM bus " + part}
		case region, strings.HasPrefix(part, "ACPI0017"):
			return evidence{TypeCXL, name + " is a CXL region"}
		case isPCIAddress(part):
			pci = part
		}
	}
	if pci != "" {
		if of, what := t.classOf(pci); of != "" {
			return evidence{of, name + " is memory of the " + what + " " + pci}
		}
	}
	return evidence{"", name + " is memory that the firmware sets aside for a purpose of its own"}
}

// classOf returns the type of memory of a PCI function, by its class, and a name for the function.
func (t *tree) classOf(pci string) (of MemoryType, what string) {
	text, ok := t.optional("devices", pciDir+"/"+pci+"/class")
	class, err := strconv.ParseUint(text, 0, 32)
	if !ok || err != nil {
		return "", ""
	}
	switch base, sub := class>>16, class>>8; {
	case sub == 0x0502: // PCI_CLASS_MEMORY_CXL
		return TypeCXL, "CXL memory device"
	case base == 0x03:
		return TypeGPU, "GPU"
	case base == 0x12 || sub == 0x0b40:
		return TypeGPU, "accelerator"
	}
	return "", ""
}

// deviceEvidence returns the evidence of PCI devices on the node.
func deviceEvidence(t *tree, h *Host, id NodeID) (all []evidence) {
	for _, d := range h.Devices {
		if d.Node != id || d.PCI == "" {
			continue
		}
		if of, what := t.classOf(d.PCI); of != "" {
			all = append(all, evidence{of, "the " + what + " " + d.PCI + " is on it"})
		}
	}
	return all
}

// region is a stretch of the kernel's resource map with the names around it, outermost first.
type region struct {
	from, to uint64
	name     string // "CXL Window 0"
	of       evidence
}

// regions reads /proc/iomem (kernel/resource.c): "  3000000000-3fffffffff : CXL Window 0". Without
// CAP_SYS_ADMIN all addresses are 0, and it returns nothing.
func (t *tree) regions() []region {
	text, ok, err := t.read("proc/iomem")
	if err != nil || !ok {
		return nil
	}
	var out []region
	for line := range strings.Lines(text) {
		span, name, found := strings.Cut(strings.TrimSpace(line), " : ")
		low, high, dash := strings.Cut(span, "-")
		from, err := strconv.ParseUint(low, 16, 64)
		to, err2 := strconv.ParseUint(high, 16, 64)
		if !found || !dash || err != nil || err2 != nil || to == 0 || len(out) == maxEntries {
			continue
		}
		name = strings.TrimSpace(name)
		if e := regionEvidence(name); e.text != "" {
			out = append(out, region{from, to, name, e})
		}
	}
	return out
}

func regionEvidence(name string) evidence {
	in := "/proc/iomem has it in " + strconv.Quote(clip(name))
	switch {
	case strings.Contains(name, "(NVIDIA)"):
		return evidence{TypeGPU, in}
	case strings.HasPrefix(name, "CXL Window"):
		return evidence{TypeCXL, in}
	case strings.HasPrefix(name, "Persistent Memory"):
		return evidence{TypePMEM, in}
	}
	return evidence{}
}

// regionOf is where the kernel's resource map has the node's first memory block.
func (t *tree) regionOf(id NodeID, regions []region) (evidence, bool) {
	if len(regions) == 0 {
		return evidence{}, false
	}
	text, ok := t.optional(nodeName(id), blockDir+"/block_size_bytes")
	size, err := strconv.ParseUint(text, 16, 64)
	if !ok || err != nil || size == 0 {
		return evidence{}, false
	}
	blocks, err := numbered[NodeID](t, strings.TrimSuffix(nodePath(id, ""), "/"), "memory")
	if err != nil || blocks.Empty() {
		return evidence{}, false
	}
	first := uint64(blocks.Min())
	if first > math.MaxUint64/size {
		return evidence{}, false
	}
	at := first * size
	for _, r := range regions {
		if r.from <= at && at <= r.to {
			return r.of, true
		}
	}
	return evidence{}, false
}

// SettleTypes gives nodes without CPUs and without a driver's evidence a type by numbers: the kernel's
// tiers, then measured latency and bandwidth, then the firmware's, and a SLIT distance that only GPUs have. Call it
// again when Measured changes: settled types stay.
func SettleTypes(h *Host) {
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if n.Kind != Special || n.Type != "" {
			continue
		}
		n.settle(slices.Concat(h.byTier(n.ID), h.byNumbers(i), h.byDistance(i)))
	}
}

// byTier returns the evidence of the kernel's memory tiers: a tier faster than that of nodes with CPUs is HBM.
func (h *Host) byTier(id NodeID) []evidence {
	at, ordinary := -1, -1
	for k, tier := range h.Tiering.Tiers {
		for i := range h.Nodes {
			n := &h.Nodes[i]
			if tier.Nodes.Has(n.ID) && n.Kind == DRAM && ordinary < 0 {
				ordinary = k
			}
		}
		if tier.Nodes.Has(id) {
			at = k
		}
	}
	switch {
	case at < 0 || ordinary < 0 || at == ordinary:
		return nil
	case at < ordinary:
		return []evidence{{TypeHBM, h.compared(at, "faster", ordinary)}}
	}
	return []evidence{{"", h.compared(at, "slower", ordinary)}}
}

// compared is the evidence of a tier against DRAM's, by position.
func (h *Host) compared(at int, how string, ordinary int) string {
	t := h.Tiering.Tiers
	return fmt.Sprintf("the kernel has it in memory tier %d, %s than DRAM's %d", t[at].ID, how, t[ordinary].ID)
}

// byNumbers compares the memory of node j with the DRAM of the nearest CPUs.
func (h *Host) byNumbers(j int) (all []evidence) {
	try := func(source string, ns, bandwidth [][]float64) {
		from := -1
		for i := range h.Nodes {
			if h.Nodes[i].Kind == DRAM && at(ns, i, i) > 0 && at(ns, i, j) > 0 &&
				(from < 0 || at(ns, i, j) < at(ns, from, j)) {
				from = i
			}
		}
		if from < 0 {
			return
		}
		latency, times := at(ns, from, j)/at(ns, from, from), 0.0
		text := fmt.Sprintf("%s: ×%.2f the latency of DRAM", source, latency)
		if own := at(bandwidth, from, from); own > 0 && at(bandwidth, from, j) > 0 {
			times = at(bandwidth, from, j) / own
			text += fmt.Sprintf(", ×%.2f its bandwidth", times)
		}
		of := MemoryType("")
		switch {
		case latency < hbmLatency && times >= hbmBandwidth:
			of = TypeHBM
		case latency < slowLatency: // as fast as DRAM
		case latency < pmemLatency:
			of = TypeCXL
		default:
			of = TypePMEM
		}
		all = append(all, evidence{of, text})
	}
	if m := h.Measured; m != nil {
		try("measured", m.LatencyNs, m.BandwidthMiBs)
	}
	try("HMAT", h.HMAT, h.HMATBandwidth)
	return all
}

// at is an entry of a table, 0 where it has none.
func at(m [][]float64, i, j int) float64 {
	if i >= len(m) || j >= len(m[i]) || !(m[i][j] > 0) {
		return 0
	}
	return m[i][j]
}

// byDistance returns the evidence of the SLIT: only a GPU's memory is so far from all CPUs.
func (h *Host) byDistance(j int) []evidence {
	least := 0
	for i := range h.Nodes {
		if h.Nodes[i].CPUs.Empty() || i >= len(h.Distances) || j >= len(h.Distances[i]) {
			continue
		}
		if d := h.Distances[i][j]; d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	if least < gpuDistance || least >= maxDistance {
		return nil
	}
	return []evidence{{TypeGPU, fmt.Sprintf("SLIT distance %d from the nearest CPUs, as GPUs have it", least)}}
}

// Tiering is the kernel's use of memory tiers (mm/memory-tiers.c).
type Tiering struct {
	Demotion  bool   // cold pages go to a slower tier where a node is short: /sys/kernel/mm/numa/demotion_enabled
	Promotion bool   // hot pages come back: bit 2 of kernel.numa_balancing
	Tiers     []Tier // fastest first; nil when the kernel does not show them (before 6.1)
}

// Tier is one of the kernel's tiers of memory.
type Tier struct {
	ID    int // N of memory_tierN; the higher, the slower
	Nodes NodeSet
}

// maxTiers bounds the tiers that are read: the kernel's adistances make some dozens at most.
const maxTiers = 256

// readTiering reads the kernel's tiers and switches. What is absent is off.
func (t *tree) readTiering() (out Tiering) {
	if text, ok, err := t.read("sys/kernel/mm/numa/demotion_enabled"); err == nil && ok {
		out.Demotion = text == "true" || text == "1"
	}
	if text, ok, err := t.read("proc/sys/kernel/numa_balancing"); err == nil && ok {
		mode, err := strconv.ParseUint(text, 10, 32)
		out.Promotion = err == nil && mode&2 != 0 // NUMA_BALANCING_MEMORY_TIERING
	}
	names, err := t.names(tierDir)
	if err != nil {
		return out
	}
	for _, name := range names[:min(len(names), maxTiers)] {
		id, ok := cutNumber(name, "memory_tier")
		if !ok {
			continue
		}
		text, ok, err := t.read(path.Join(tierDir, name, "nodelist"))
		if err != nil || !ok {
			continue
		}
		nodes, err := ParseSet[NodeID](text)
		if err != nil || nodes.Empty() {
			continue
		}
		out.Tiers = append(out.Tiers, Tier{id, nodes})
	}
	slices.SortFunc(out.Tiers, func(a, b Tier) int { return a.ID - b.ID })
	if len(out.Tiers) < 2 && !out.Demotion && !out.Promotion {
		out.Tiers = nil // every host of DRAM alone has one
	}
	return out
}

// GPUNodes returns the nodes that are a GPU's own memory.
func (h *Host) GPUNodes() NodeSet { return h.NodesWith((*Node).OfGPU) }

// Lower returns the nodes to which the kernel moves cold pages of nodes with CPUs.
func (h *Host) Lower() NodeSet {
	if !h.Tiering.Demotion {
		return NodeSet{}
	}
	return h.Below(h.NodesWith(func(n *Node) bool { return n.Kind == DRAM }))
}

// Stays returns the nodes whose memory no move to a home fetches: those Below it, and a GPU's, where its driver
// puts pages.
func (h *Host) Stays(home NodeSet) NodeSet {
	below, gpus := h.Below(home), h.GPUNodes()
	if gpus.Empty() {
		return below
	}
	return below.Union(gpus).Minus(home)
}

// Below returns the nodes to which the kernel moves cold pages of nodes: all in slower tiers. It is empty while
// demotion is off. What lies there counts as local, because the kernel put it there and would do so again.
func (h *Host) Below(nodes NodeSet) (below NodeSet) {
	if !h.Tiering.Demotion {
		return below
	}
	if h.Tiering.Tiers == nil {
		return h.belowUnshown(nodes)
	}
	top := -1
	for k, tier := range h.Tiering.Tiers {
		switch {
		case top < 0 && tier.Nodes.Intersects(nodes):
			top = k
		case top >= 0:
			below = below.Union(tier.Nodes)
		}
	}
	return below.Minus(nodes)
}

// belowUnshown is Below where the kernel does not show its tiers: before 6.1 it demotes from nodes with CPUs to
// nodes without.
func (h *Host) belowUnshown(nodes NodeSet) (below NodeSet) {
	from := false
	for i := range h.Nodes {
		n := &h.Nodes[i]
		switch {
		case n.Kind == DRAM && nodes.Has(n.ID):
			from = true
		case n.Kind == Special && n.Type != TypeHBM:
			below.Add(n.ID)
		}
	}
	if !from {
		return NodeSet{}
	}
	return below.Minus(nodes)
}
