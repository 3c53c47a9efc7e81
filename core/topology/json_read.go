package topology

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology/strict"
)

// FromJSON reads the form that WriteJSON and MarshalJSON write. The keys
// schema and nodes must be there, and of a node id; all others may be left out,
// and what can be told from the rest then is. An unknown or repeated key, a CPU
// in two places, a size below zero or an entry that contradicts another is an
// error of one line, with line, column and path of the value.
func FromJSON(r io.Reader) (*Host, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("read host JSON: %w", err)
	}
	if len(data) > maxJSON {
		return nil, fmt.Errorf("read host JSON: more than %d MiB; this is not a host", maxJSON>>20)
	}
	var j hostJSON
	d := strict.New("the host", data)
	if err := d.Decode(&j); err != nil {
		return nil, fmt.Errorf("read host JSON: %w", err)
	}
	h, err := fromWire(d, &j)
	if err != nil {
		return nil, fmt.Errorf("read host JSON: %w", err)
	}
	return h, nil
}

func fromWire(d *strict.Decoder, j *hostJSON) (*Host, error) {
	if j.Schema != Schema {
		return nil, d.Errorf("schema", "is %q; this program reads %q", clip(j.Schema), Schema)
	}
	w := wireReader{Decoder: d, h: &Host{CPU: j.CPU}}
	h := w.h
	w.nodes(j)
	w.cpus(j)
	w.cores(j)
	w.packages(j)
	w.llcs(j)
	w.distances(j)
	w.allowed(j)
	w.devices(j)
	if w.err != nil {
		return nil, w.err
	}
	for i, n := range j.Notes {
		if n.Subject == "" && n.Text == "" {
			return nil, d.Errorf(fmt.Sprintf("notes[%d]", i), "is empty; give subject and text")
		}
		h.Notes = append(h.Notes, Note(n))
	}
	h.Notes = append(h.Notes, w.notes...)
	return h, nil
}

// wireReader checks hostJSON part by part; the first error wins and ends the rest.
type wireReader struct {
	*strict.Decoder
	h     *Host
	notes []Note
	err   error
}

func (w *wireReader) fail(path, format string, args ...any) {
	if w.err == nil {
		w.err = w.Errorf(path, format, args...)
	}
}

// number is a value from low to high; missing is what an absent or null one becomes.
func (w *wireReader) number(path string, v *int64, low, high, missing int64) int64 {
	if v == nil {
		return missing
	}
	if *v < low || *v > high {
		w.fail(path, "is %d; give %d to %d, or null where unknown", *v, low, high)
		return missing
	}
	return *v
}

// maxAmount bounds sizes and counts, so that sums of them do not overflow.
const maxAmount = 1 << 52

func wireSet[T ~int](w *wireReader, path, list string) Set[T] {
	s, err := ParseSet[T](list)
	if err != nil {
		w.fail(path, "%v", err)
	}
	return s
}

func (w *wireReader) nodes(j *hostJSON) {
	if len(j.Nodes) == 0 {
		w.fail("nodes", "holds no node; a host has at least one")
		return
	}
	owner := map[CPUID]NodeID{}
	ids := NodeSet{}
	for i, n := range j.Nodes {
		path := fmt.Sprintf("nodes[%d]", i)
		if n.ID == nil {
			w.fail(path, "has no id")
			return
		}
		node := Node{
			ID:          NodeID(w.number(path+".id", n.ID, 0, MaxID, 0)),
			Package:     PackageID(w.number(path+".package", n.Package, 0, 1<<31, None)),
			CPUs:        wireSet[CPUID](w, path+".cpus", n.CPUs),
			Memory:      KiB(w.number(path+".memory_kib", n.Memory, 0, maxAmount, None)),
			Free:        KiB(w.number(path+".free_kib", n.Free, 0, maxAmount, None)),
			Reclaimable: KiB(w.number(path+".reclaimable_kib", n.Reclaimable, 0, maxAmount, None)),
			HugePages:   w.pools(path, n.HugePages),
			Kind:        MemoryKind(n.Kind),
			Type:        MemoryType(n.Type),
			Evidence:    n.Evidence,
		}
		if w.err != nil {
			return
		}
		if ids.Has(node.ID) {
			w.fail(path+".id", "node %d is there twice", node.ID)
			return
		}
		ids.Add(node.ID)
		for cpu := range node.CPUs.All() {
			if other, taken := owner[cpu]; taken {
				w.fail(path+".cpus", "CPU %d is on node %d and on node %d; give it to one", cpu, other, node.ID)
				return
			}
			owner[cpu] = node.ID
		}
		switch node.Kind {
		case "":
			node.Kind = kindOf(node)
		case DRAM, Special, NoMem:
		default:
			w.fail(path+".kind", "is %q; give dram, special or none", clip(n.Kind))
		}
		if n.Type != "" && !slices.Contains(MemoryTypes, node.Type) {
			w.fail(path+".memory_type", "is %q; give dram, hbm, cxl, pmem or gpu, or leave it out where unknown",
				clip(n.Type))
		}
		if node.Memory >= 0 && node.Free > node.Memory {
			w.fail(path+".free_kib", "is %d, more than the node's memory of %d", node.Free, node.Memory)
		}
		w.h.Nodes = append(w.h.Nodes, node)
	}
	slices.SortFunc(w.h.Nodes, func(a, b Node) int { return int(a.ID - b.ID) })
}

func (w *wireReader) pools(path string, in []poolJSON) []HugePool {
	var out []HugePool
	for i, p := range in {
		path := fmt.Sprintf("%s.hugepages[%d]", path, i)
		if p.Size == nil || p.Total == nil {
			w.fail(path, "wants size_kib and total")
			return nil
		}
		pool := HugePool{
			Size:  KiB(w.number(path+".size_kib", p.Size, 1, maxAmount, 1)),
			Total: w.number(path+".total", p.Total, 0, maxAmount, 0),
			Free:  w.number(path+".free", p.Free, 0, maxAmount, None),
		}
		if pool.Free > pool.Total {
			w.fail(path+".free", "is %d, more than the total of %d", pool.Free, pool.Total)
		}
		if slices.ContainsFunc(out, func(o HugePool) bool { return o.Size == pool.Size }) {
			w.fail(path+".size_kib", "page size %d KiB is there twice", pool.Size)
		}
		out = append(out, pool)
	}
	slices.SortFunc(out, func(a, b HugePool) int { return int(a.Size - b.Size) })
	return out
}

// cpus settles which CPUs are online: as told, or all that a node or core has.
func (w *wireReader) cpus(j *hostJSON) {
	onNodes := CPUSet{}
	for _, n := range w.h.Nodes {
		onNodes = onNodes.Union(n.CPUs)
	}
	w.h.Offline = wireSet[CPUID](w, "offline_cpus", j.Offline)
	if j.Online == nil {
		w.h.Online = onNodes
		for i, c := range j.Cores {
			w.h.Online = w.h.Online.Union(wireSet[CPUID](w, fmt.Sprintf("cores[%d].cpus", i), c.CPUs))
		}
	} else {
		w.h.Online = wireSet[CPUID](w, "online_cpus", *j.Online)
		if missing := onNodes.Minus(w.h.Online); !missing.Empty() {
			w.fail("online_cpus", "lacks CPUs %s, which are on a node", missing)
		}
	}
	if w.h.Online.Empty() {
		w.fail("nodes", "have no CPU; a host has at least one")
	}
	if both := w.h.Online.Intersect(w.h.Offline); !both.Empty() {
		w.fail("offline_cpus", "CPUs %s are online and offline", both)
	}
}

// group checks one CPU set of a list whose sets do not overlap.
func (w *wireReader) group(path, list string, seen *CPUSet) CPUSet {
	cpus := wireSet[CPUID](w, path, list)
	if cpus.Empty() {
		w.fail(path, "holds no CPU")
	}
	if twice := cpus.Intersect(*seen); !twice.Empty() {
		w.fail(path, "CPUs %s are in an earlier entry too", twice)
	}
	if strange := cpus.Minus(w.h.Online); !strange.Empty() {
		w.fail(path, "CPUs %s are not online CPUs of this host", strange)
	}
	*seen = seen.Union(cpus)
	return cpus
}

func (w *wireReader) cores(j *hostJSON) {
	h, seen := w.h, CPUSet{}
	for i, c := range j.Cores {
		path := fmt.Sprintf("cores[%d]", i)
		core := Core{
			CPUs:     w.group(path+".cpus", c.CPUs, &seen),
			Package:  PackageID(w.number(path+".package", c.Package, 0, 1<<31, None)),
			Capacity: int(w.number(path+".capacity", c.Capacity, 1, 1024, None)),
		}
		if w.err != nil {
			return
		}
		core.Node = h.NodeOf(core.CPUs.Min())
		if c.Node != nil && NodeID(*c.Node) != core.Node {
			w.fail(path+".node", "is %d, but CPU %d is not among the CPUs of that node", *c.Node, core.CPUs.Min())
		}
		h.Cores = append(h.Cores, core)
	}
	if len(j.Cores) == 0 {
		for cpu := range h.Online.All() {
			h.Cores = append(h.Cores, Core{CPUs: CPUs(cpu), Node: h.NodeOf(cpu), Package: None, Capacity: None})
		}
		w.notes = append(w.notes, Note{"cores", "not in the file; each CPU counts as a core"})
	} else if rest := h.Online.Minus(seen); !rest.Empty() {
		w.fail("cores", "CPUs %s are in no core", rest)
	}
	slices.SortFunc(h.Cores, func(a, b Core) int { return int(a.CPUs.Min() - b.CPUs.Min()) })
}

// packages come from "packages", from the cores, or from the nodes; what is
// told twice must agree.
func (w *wireReader) packages(j *hostJSON) {
	h, seen := w.h, CPUSet{}
	for i, p := range j.Packages {
		path := fmt.Sprintf("packages[%d]", i)
		if p.ID == nil {
			w.fail(path, "has no id")
			return
		}
		id := PackageID(w.number(path+".id", p.ID, 0, 1<<31, 0))
		if slices.ContainsFunc(h.Packages, func(o Package) bool { return o.ID == id }) {
			w.fail(path+".id", "package %d is there twice", id)
		}
		h.Packages = append(h.Packages, Package{id, w.group(path+".cpus", p.CPUs, &seen)})
	}
	if w.err != nil {
		return
	}
	for i := range h.Cores {
		c := &h.Cores[i]
		if c.Package == None && len(j.Packages) == 0 && c.Node != None {
			c.Package = h.Nodes[h.Index(c.Node)].Package
		}
		at := slices.IndexFunc(h.Packages, func(p Package) bool { return c.CPUs.SubsetOf(p.CPUs) })
		switch {
		case at >= 0 && c.Package == None:
			c.Package = h.Packages[at].ID
		case len(j.Packages) > 0 && c.Package != None && (at < 0 || h.Packages[at].ID != c.Package):
			w.fail("cores", "CPUs %s are said to be in package %d, but packages says otherwise", c.CPUs, c.Package)
			return
		}
	}
	if len(j.Packages) == 0 {
		h.Packages = packagesOf(h.Cores)
	}
	slices.SortFunc(h.Packages, func(a, b Package) int { return int(a.ID - b.ID) })
	for _, n := range h.Nodes {
		for _, p := range h.Packages {
			if n.Package != None && n.Package != p.ID && n.CPUs.Intersects(p.CPUs) {
				w.fail("nodes", "node %d is said to be in package %d, but has CPUs of package %d", n.ID, n.Package,
					p.ID)
				return
			}
		}
	}
	// A CPU-less node keeps the package it is told to be in.
	told := make([]PackageID, len(h.Nodes))
	for i, n := range h.Nodes {
		told[i] = n.Package
	}
	setNodePackages(h)
	for i := range h.Nodes {
		if h.Nodes[i].CPUs.Empty() {
			h.Nodes[i].Package = told[i]
		}
	}
}

// packagesOf gathers the packages that cores name.
func packagesOf(cores []Core) []Package {
	var out []Package
	for _, c := range cores {
		if c.Package == None {
			continue
		}
		at := slices.IndexFunc(out, func(p Package) bool { return p.ID == c.Package })
		if at < 0 {
			out = append(out, Package{ID: c.Package})
			at = len(out) - 1
		}
		out[at].CPUs = out[at].CPUs.Union(c.CPUs)
	}
	slices.SortFunc(out, func(a, b Package) int { return int(a.ID - b.ID) })
	return out
}

func (w *wireReader) llcs(j *hostJSON) {
	seen := CPUSet{}
	for i, l := range j.LLCs {
		path := fmt.Sprintf("llcs[%d]", i)
		w.h.LLCs = append(w.h.LLCs, LLC{
			ID:    CacheID(w.number(path+".id", l.ID, 0, MaxID, None)),
			CPUs:  w.group(path+".cpus", l.CPUs, &seen),
			Level: int(w.number(path+".level", l.Level, 1, maxLevel, 3)),
			Size:  KiB(w.number(path+".size_kib", l.Size, 1, maxAmount, None)),
		})
	}
	w.h.NumberLLCs()
}

// rowOf maps a position in the input's nodes to one in Host.Nodes.
func (w *wireReader) rowOf(j *hostJSON) []int {
	at := make([]int, len(j.Nodes))
	for i, n := range j.Nodes {
		at[i] = w.h.Index(NodeID(*n.ID))
	}
	return at
}

func (w *wireReader) distances(j *hostJSON) {
	if w.err != nil {
		return
	}
	at := w.rowOf(j)
	if j.Distances != nil && square(w, "distances", j.Distances) {
		m := newMatrix(len(at))
		for i, row := range j.Distances {
			for k, v := range row {
				path := fmt.Sprintf("distances[%d][%d]", i, k)
				m[at[i]][at[k]] = int(w.number(path, v, minDistance, maxDistance, None))
			}
		}
		w.h.Distances = m
	}
	w.h.HMAT = w.floats("hmat_latency_ns", j.HMAT, at)
	w.h.HMATBandwidth = w.floats("hmat_bandwidth_mb_s", j.HMATBandwidth, at)
	w.tiering(j.Tiering)
	if j.Measured != nil {
		switch Source(j.Measured.Source) {
		case "", MeasuredNow, MeasuredBefore:
		default:
			w.fail("measured.source", "is %q; give measured or cached", clip(j.Measured.Source))
		}
		if j.Measured.LineOwn < 0 || j.Measured.LineOther < 0 {
			w.fail("measured.line_own_ns", "or line_other_ns is negative; give ns")
		}
		w.h.Measured = &Measured{
			LineOwnNs:     j.Measured.LineOwn,
			LineOtherNs:   j.Measured.LineOther,
			Source:        Source(j.Measured.Source),
			LatencyNs:     w.floats("measured.latency_ns", j.Measured.Latency, at),
			BandwidthMiBs: w.floats("measured.bandwidth_mib_s", j.Measured.Bandwidth, at),
		}
	}
}

func (w *wireReader) tiering(j *tieringJSON) {
	if j == nil {
		return
	}
	t := &w.h.Tiering
	t.Demotion, t.Promotion = j.Demotion, j.Promotion
	for i, tier := range j.Tiers {
		path := fmt.Sprintf("tiering.tiers[%d]", i)
		if i >= maxTiers {
			w.fail(path, "is one too many; give %d at most", maxTiers)
			return
		}
		if i > 0 && tier.ID <= j.Tiers[i-1].ID {
			w.fail(path+".tier", "is %d after %d; give the tiers by rising number", tier.ID, j.Tiers[i-1].ID)
		}
		t.Tiers = append(t.Tiers, Tier{tier.ID, wireSet[NodeID](w, path+".nodes", tier.Nodes)})
	}
}

func (w *wireReader) floats(path string, in [][]*float64, at []int) [][]float64 {
	if in == nil || !square(w, path, in) {
		return nil
	}
	m := make([][]float64, len(at))
	for i := range m {
		m[i] = make([]float64, len(at))
	}
	for i, row := range in {
		for k, v := range row {
			switch {
			case v == nil:
			case *v <= 0:
				w.fail(fmt.Sprintf("%s[%d][%d]", path, i, k), "is %v; give a number above 0, or null where unknown", *v)
			default:
				m[at[i]][at[k]] = *v
			}
		}
	}
	return m
}

func square[T any](w *wireReader, path string, m [][]T) bool {
	n := len(w.h.Nodes)
	if len(m) != n {
		w.fail(path, "has %s for %s; give one for each, in the order of nodes", plural(len(m), "row"),
			plural(n, "node"))
		return false
	}
	for i, row := range m {
		if len(row) != n {
			w.fail(fmt.Sprintf("%s[%d]", path, i), "has %s for %s", plural(len(row), "value"), plural(n, "node"))
			return false
		}
	}
	return true
}

func (w *wireReader) allowed(j *hostJSON) {
	h := w.h
	h.Allowed, h.AllowedMems = h.Online.Clone(), h.WithMemory()
	if j.Allowed != nil {
		h.Allowed = wireSet[CPUID](w, "allowed_cpus", *j.Allowed)
		if strange := h.Allowed.Minus(h.Online); !strange.Empty() {
			w.fail("allowed_cpus", "CPUs %s are not online", strange)
		}
	}
	if j.Mems != nil {
		h.AllowedMems = wireSet[NodeID](w, "allowed_mems", *j.Mems)
		if strange := h.AllowedMems.Minus(h.AllNodes()); !strange.Empty() {
			w.fail("allowed_mems", "there is no node %s", strange)
		}
	}
}

func (w *wireReader) devices(j *hostJSON) {
	for i, d := range j.Devices {
		path := fmt.Sprintf("devices[%d]", i)
		dev := Device{
			Name: d.Name, Kind: DeviceKind(d.Kind), PCI: d.PCI, Root: d.Root,
			Bridges: d.Bridges, GPU: d.GPU, Model: cleanModel(d.Model), UUID: d.UUID, Chars: d.Chars,
			Node: NodeID(w.number(path+".node", d.Node, 0, MaxID, None)),
		}
		switch dev.Kind {
		case NIC, NVMe, Storage, GPU, Accel:
		default:
			w.fail(path+".kind", "is %q; give nic, nvme, storage, gpu or accel", clip(d.Kind))
		}
		if d.Name == "" || strings.ContainsAny(d.Name, " /\n") {
			w.fail(path+".name", "is %q; give a name without blanks and slashes", clip(d.Name))
		}
		w.gpu(path, &dev)
		if d.PCI != "" && !isPCIAddress(d.PCI) {
			w.fail(path+".pci", "is %q; give an address such as 0000:3b:00.0", clip(d.PCI))
		}
		if dev.Node != None && w.h.Index(dev.Node) < 0 {
			w.fail(path+".node", "there is no node %d", dev.Node)
		}
		if slices.Contains(w.h.Devices, dev) {
			w.fail(path, "%s is there twice", clip(d.Name))
		}
		w.h.Devices = append(w.h.Devices, dev)
	}
	sortDevices(w.h.Devices)
}

// mostBridges bounds the bridges above a device: four switches in a row have 9.
const mostBridges = 32

// mostChars bounds the character devices of a GPU, which has one to three.
const mostChars = 16

// gpu checks what a device has of a GPU, and the bridges above it.
func (w *wireReader) gpu(path string, d *Device) {
	if _, ok := cutNumber(d.GPU, "gpu"); d.GPU != "" && !ok {
		w.fail(path+".gpu", "is %q; give a name such as gpu0", clip(d.GPU))
	}
	if d.UUID != "" && !isUUID(d.UUID) {
		w.fail(path+".uuid", "is %q; give letters, digits and dashes, %d at most", clip(d.UUID), mostUUID)
	}
	chars := strings.Fields(d.Chars)
	if len(chars) > mostChars || strings.Join(chars, " ") != d.Chars ||
		slices.ContainsFunc(chars, func(c string) bool { return !isCharNumber(c) }) {
		w.fail(path+".chars", "is %q; give at most %d numbers such as 195:0 with a blank between them", clip(d.Chars),
			mostChars)
	}
	above := d.bridges()
	bad := slices.ContainsFunc(above, func(pci string) bool { return !isPCIAddress(pci) })
	if bad || len(above) > mostBridges {
		w.fail(path+".bridges", "is %q; give at most %d addresses such as 0000:3b:00.0 with slashes between them",
			clip(d.Bridges), mostBridges)
	}
}
