package topology

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxHwloc bounds XML input; lstopo writes some 3 MiB for 2,048 CPUs.
	maxHwloc = 64 << 20
	// maxHwlocDepth bounds nesting: caches, groups and PCI bridges make about 30.
	maxHwlocDepth = 256
)

// FromHwlocXML reads what `lstopo --of xml` of hwloc 2 and 3 writes; write it
// with --disallowed for the whole machine. Such a file tells less than sysfs:
// free memory, free huge pages and core capacity are unknown, and of a CPU near
// several nodes it does not say which one it belongs to: that is then the node
// with the fewest CPUs near, and of these the lowest.
func FromHwlocXML(r io.Reader) (*Host, error) {
	x := &hwlocReader{dec: xml.NewDecoder(io.LimitReader(r, maxHwloc))}
	if err := x.run(); err != nil {
		line, column := x.dec.InputPos()
		var syntax *xml.SyntaxError
		if errors.As(err, &syntax) {
			// encoding/xml repeats the input, however long and whatever is in it.
			err = fmt.Errorf("%.80q", syntax.Msg)
		}
		return nil, fmt.Errorf("read hwloc XML: line %d column %d: %w", line, column, err)
	}
	h, err := x.host()
	if err != nil {
		return nil, fmt.Errorf("read hwloc XML: %w", err)
	}
	return h, nil
}

// hwlocObject is one <object>, as far as it matters.
type hwlocObject struct {
	kind  string
	cpus  CPUSet // of the object, or for I/O of the nearest object around it
	index int    // os_index, or None
	level int    // caches
	cache string // cache_type: 0 unified, 1 data, 2 instruction
	size  KiB    // caches, nodes
	gp    string
	pages []HugePool // nodes, the base page first
	pci   string     // of the PCI function it is or hangs under
	class uint32
	root  string
	names []Device // PCI functions
}

// hwlocMatrix is the one <distances2> that holds the SLIT.
type hwlocMatrix struct {
	byGP          bool // indexes are gp_index, not os_index
	indexes, vals []string
}

type hwlocReader struct {
	dec               *xml.Decoder
	version           int
	stack             []*hwlocObject
	all               []*hwlocObject
	complete, allowed CPUSet
	allowedNodes      NodeSet
	cpu               string // model
	matrix            *hwlocMatrix
	inMatrix          bool
	words             *[]string // where character data goes
}

func (x *hwlocReader) run() error {
	for depth := 0; ; {
		tok, err := x.dec.Token()
		switch {
		case err == io.EOF && x.version == 0:
			return fmt.Errorf("no <topology> here; write the file with `lstopo --of xml FILE`")
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			depth++
			if depth > maxHwlocDepth {
				return fmt.Errorf("more than %d elements inside one another", maxHwlocDepth)
			}
			if err := x.start(tok.Name.Local, tok.Attr); err != nil {
				return fmt.Errorf("<%s>: %w", clip(tok.Name.Local), err)
			}
		case xml.CharData:
			if x.words != nil {
				*x.words = append(*x.words, strings.Fields(string(tok))...)
			}
		case xml.EndElement:
			depth--
			x.end(tok.Name.Local)
		}
	}
}

func (x *hwlocReader) start(element string, a attributes) error {
	if x.version == 0 {
		return x.topology(element, a)
	}
	switch element {
	case "object":
		o, err := x.object(a)
		x.stack = append(x.stack, o)
		x.all = append(x.all, o)
		return err
	case "page_type":
		return x.pageType(a)
	case "info":
		if a.get("name") == "CPUModel" && x.cpu == "" {
			x.cpu = strings.TrimSpace(a.get("value"))
		}
	case "distances2":
		// Before hwloc 2.1 matrices had no name; kind 5 is "from the system, latency".
		name := a.get("name")
		if a.get("type") == "NUMANode" && x.matrix == nil &&
			(name == "NUMALatency" || (name == "" && a.get("kind") == "5")) {
			x.matrix, x.inMatrix = &hwlocMatrix{byGP: a.get("indexing") == "gp"}, true
		}
	case "indexes":
		if x.inMatrix {
			x.words = &x.matrix.indexes
		}
	case "u64values":
		if x.inMatrix {
			x.words = &x.matrix.vals
		}
	}
	return nil
}

func (x *hwlocReader) end(element string) {
	switch element {
	case "object":
		x.stack = x.stack[:len(x.stack)-1]
	case "indexes", "u64values":
		x.words = nil
	case "distances2":
		x.inMatrix = false
	}
}

func (x *hwlocReader) topology(element string, a attributes) error {
	if element != "topology" {
		return fmt.Errorf("the outermost element is not topology; write the file with `lstopo --of xml FILE`")
	}
	switch version := a.get("version"); {
	case strings.HasPrefix(version, "2."):
		x.version = 2
	case strings.HasPrefix(version, "3."):
		x.version = 3
	default:
		return fmt.Errorf("version %q is not 2 or 3; write the file anew with lstopo of hwloc 2 or 3", clip(version))
	}
	return nil
}

type attributes []xml.Attr

func (a attributes) get(name string) string {
	for _, attr := range a {
		if attr.Name.Local == name {
			return attr.Value
		}
	}
	return ""
}

// number is an attribute of at most limit; an absent one is missing.
func (a attributes) number(name string, limit, missing int64) (int64, error) {
	text := a.get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || int64(n) > limit {
		return 0, fmt.Errorf("%s is %q, want a number up to %d", name, clip(text), limit)
	}
	return int64(n), nil
}

func (a attributes) mask(name string) (CPUSet, error) {
	s, err := parseHwlocMask(a.get(name))
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// parseHwlocMask reads "0x000000ff,,0x0000ffff": words of 32 bits, highest
// first; an empty word is 0.
func parseHwlocMask(mask string) (CPUSet, error) {
	if strings.HasPrefix(mask, "0xf...f") {
		return CPUSet{}, fmt.Errorf("%q has no end; such a set cannot be of real CPUs or nodes", clip(mask))
	}
	words := strings.Split(mask, ",")
	for i, word := range words {
		if words[i] = strings.TrimPrefix(word, "0x"); words[i] == "" {
			words[i] = "0"
		}
	}
	return ParseMask(strings.Join(words, ","))
}

// object reads the attributes that matter for its kind.
func (x *hwlocReader) object(a attributes) (*hwlocObject, error) {
	o := &hwlocObject{kind: a.get("type"), gp: a.get("gp_index")}
	if n := len(x.stack); n > 0 {
		o.cpus = x.stack[n-1].cpus
		o.pci = x.stack[n-1].pci
		o.root = x.stack[n-1].root
	}
	index, err := a.number("os_index", MaxID, None)
	if err != nil && (o.kind == "NUMANode" || o.kind == "PU") {
		return o, err
	}
	// Packages on some machines have 4294967295 for "unknown".
	if o.index = int(index); err != nil {
		o.index = None
	}
	if a.get("cpuset") != "" {
		if o.cpus, err = a.mask("cpuset"); err != nil {
			return o, err
		}
	}
	switch o.kind {
	case "Machine":
		return o, x.machine(a)
	case "NUMANode":
		bytes, err := a.number("local_memory", 1<<62, 0)
		if o.size = KiB(bytes >> 10); o.index == None && err == nil {
			err = fmt.Errorf("NUMANode without os_index")
		}
		return o, err
	case "PU":
		if o.index == None {
			return o, fmt.Errorf("PU without os_index")
		}
	case "Bridge":
		o.bridge(a)
	case "PCIDev":
		if o.pci = a.get("pci_busid"); !isPCIAddress(o.pci) {
			return o, fmt.Errorf("pci_busid is %q, want an address such as 0000:3b:00.0", clip(o.pci))
		}
		class, _, _ := strings.Cut(a.get("pci_type"), " ")
		n, err := strconv.ParseUint(class, 16, 16)
		if err != nil {
			return o, fmt.Errorf("pci_type is %q, want it to start with a class of four hexadecimal digits",
				clip(class))
		}
		o.class = uint32(n) << 8
	case "OSDev":
		o.osdev(a, x.version, x.stack)
	}
	if strings.HasSuffix(o.kind, "Cache") && o.kind != "MemCache" {
		level, err := a.number("depth", 9, 0)
		if err != nil {
			return o, err
		}
		bytes, err := a.number("cache_size", 1<<62, 0)
		o.level = int(level)
		o.size = KiB(bytes >> 10)
		o.cache = a.get("cache_type")
		return o, err
	}
	return o, nil
}

func (x *hwlocReader) machine(a attributes) (err error) {
	if x.complete, err = a.mask("complete_cpuset"); err != nil {
		return err
	}
	if x.allowed, err = a.mask("allowed_cpuset"); err != nil {
		return err
	}
	nodes, err := a.mask("allowed_nodeset")
	x.allowedNodes = NodeSet(nodes)
	return err
}

// bridge notes the PCI root: a host bridge, "0-1", of which bridge_pci tells
// domain and buses, "0000:[3a-3e]".
func (o *hwlocObject) bridge(a attributes) {
	o.pci = ""
	domain, buses, ok := strings.Cut(a.get("bridge_pci"), ":[")
	if !ok || a.get("bridge_type") != "0-1" {
		return
	}
	if bus, _, _ := strings.Cut(buses, "-"); len(bus) == 2 && isHex(bus) && isHex(domain) {
		o.root = "pci" + domain + ":" + bus
	}
}

// osdev names the PCI function around it, as the kernel does; names that
// other libraries gave (cuda0, nvml0, opencl0d0) are left out. osdev_type is a
// number in hwloc 2 and a bit mask in hwloc 3.
func (o *hwlocObject) osdev(a attributes, version int, stack []*hwlocObject) {
	if o.pci == "" || len(stack) == 0 {
		return
	}
	function := stack[len(stack)-1]
	name := a.get("name")
	if name == "" || strings.ContainsAny(name, " /\n\t") {
		return
	}
	var kind DeviceKind
	is := func(v2, v3 string) bool { return a.get("osdev_type") == []string{v2, v3}[version-2] }
	switch {
	case is("2", "16"):
		kind = NIC
	case is("3", "32"):
		kind = Accel
	case is("0", "1"):
		kind = Storage
		if strings.HasPrefix(name, "nvme") {
			kind = NVMe
		}
	case is("1", "4"):
		if _, ok := cutNumber(name, "card"); !ok {
			return
		}
		kind = GPU
	case is("4", "64"):
		if !strings.HasPrefix(name, "dsa") && !strings.HasPrefix(name, "iax") {
			return
		}
		kind = Accel
	default:
		return
	}
	function.names = append(function.names, Device{Name: name, Kind: kind})
}

// pageType adds a page size of the node around it; the base page is no pool.
func (x *hwlocReader) pageType(a attributes) error {
	if len(x.stack) == 0 || x.stack[len(x.stack)-1].kind != "NUMANode" {
		return nil
	}
	size, err := a.number("size", 1<<62, 0)
	if err != nil {
		return err
	}
	count, err := a.number("count", maxAmount, 0)
	if err != nil {
		return err
	}
	// 64 KiB is the base page of some ARM and POWER kernels and a huge page of
	// others; no kernel has a huge page of 16 KiB or less.
	node := x.stack[len(x.stack)-1]
	if first := len(node.pages) == 0; size>>10 > 0 && (first || KiB(size>>10) != node.pages[0].Size) {
		node.pages = append(node.pages, HugePool{Size: KiB(size >> 10), Total: count, Free: None})
	}
	return nil
}

func (x *hwlocReader) of(kind string) []*hwlocObject {
	var out []*hwlocObject
	for _, o := range x.all {
		if o.kind == kind {
			out = append(out, o)
		}
	}
	return out
}

// host puts the objects together.
func (x *hwlocReader) host() (*Host, error) {
	h := &Host{CPU: x.cpu}
	for _, pu := range x.of("PU") {
		if h.Online.Has(CPUID(pu.index)) {
			return nil, fmt.Errorf("PU %d is there twice", pu.index)
		}
		h.Online.Add(CPUID(pu.index))
	}
	if h.Online.Empty() {
		return nil, fmt.Errorf("no PU in it; write it with lstopo of the whole machine")
	}
	h.Offline = x.complete.Minus(h.Online)
	if err := x.setNodes(h); err != nil {
		return nil, err
	}
	x.setCores(h)
	x.setLLCs(h)
	x.setDevices(h)
	if err := x.setDistances(h); err != nil {
		return nil, err
	}
	h.Allowed = x.allowed.Intersect(h.Online)
	h.AllowedMems = h.NodesWith(func(n *Node) bool {
		return n.Memory > 0 && (x.allowedNodes.Empty() || x.allowedNodes.Has(n.ID))
	})
	if h.Allowed.Empty() {
		h.Allowed = h.Online.Clone()
	}
	return h, nil
}

// setNodes places each CPU on the node with the fewest CPUs near, of these the lowest.
func (x *hwlocReader) setNodes(h *Host) error {
	nodes := x.of("NUMANode")
	slices.SortStableFunc(nodes, func(a, b *hwlocObject) int { return a.index - b.index })
	order := slices.Clone(nodes)
	slices.SortStableFunc(order, func(a, b *hwlocObject) int { return a.cpus.Len() - b.cpus.Len() })
	free := h.Online.Clone()
	own := map[int]CPUSet{}
	for _, o := range order {
		if _, twice := own[o.index]; twice {
			return fmt.Errorf("NUMANode %d is there twice", o.index)
		}
		own[o.index] = o.cpus.Intersect(free)
		free = free.Minus(own[o.index])
	}
	for _, o := range nodes {
		n := Node{
			ID: NodeID(o.index), Package: None, CPUs: own[o.index],
			Memory: o.size, Free: None, Reclaimable: None,
		}
		if len(o.pages) > 1 {
			n.HugePages = o.pages[1:]
			slices.SortFunc(n.HugePages, func(a, b HugePool) int { return int(a.Size - b.Size) })
		}
		n.Kind = kindOf(n)
		h.Nodes = append(h.Nodes, n)
	}
	if len(nodes) == 0 {
		return fmt.Errorf("no NUMANode in it; hwloc 2 and 3 write at least one")
	}
	if !free.Empty() {
		h.Notes = append(h.Notes, Note{"cpus", fmt.Sprintf("CPUs %s run but are on no online node", free)})
	}
	return nil
}

func (x *hwlocReader) setCores(h *Host) {
	seen := CPUSet{}
	add := func(cpus CPUSet) {
		if cpus = cpus.Intersect(h.Online).Minus(seen); !cpus.Empty() {
			seen = seen.Union(cpus)
			h.Cores = append(h.Cores, Core{CPUs: cpus, Node: h.NodeOf(cpus.Min()), Package: None, Capacity: None})
		}
	}
	for _, o := range x.of("Core") {
		add(o.cpus)
	}
	for cpu := range h.Online.Minus(seen).All() {
		add(CPUs(cpu))
	}
	slices.SortFunc(h.Cores, func(a, b Core) int { return int(a.CPUs.Min() - b.CPUs.Min()) })
	for _, o := range x.of("Package") {
		if o.index == None {
			continue
		}
		for i := range h.Cores {
			if h.Cores[i].CPUs.Intersects(o.cpus) {
				h.Cores[i].Package = PackageID(o.index)
			}
		}
	}
	h.Packages = packagesOf(h.Cores)
	setNodePackages(h)
}

// setLLCs takes for each CPU its highest unified cache, else its highest data cache.
func (x *hwlocReader) setLLCs(h *Host) {
	var caches []*hwlocObject
	for _, o := range x.all {
		if o.level > 0 && o.cache != "2" {
			caches = append(caches, o)
		}
	}
	slices.SortStableFunc(caches, func(a, b *hwlocObject) int {
		if unifiedA, unifiedB := a.cache != "1", b.cache != "1"; unifiedA != unifiedB {
			if unifiedA {
				return -1
			}
			return 1
		}
		return b.level - a.level
	})
	seen := CPUSet{}
	for _, o := range caches {
		if cpus := o.cpus.Intersect(h.Online).Minus(seen); !cpus.Empty() {
			seen = seen.Union(cpus)
			size := cmp.Or(o.size, None)
			h.LLCs = append(h.LLCs, LLC{ID: None, CPUs: cpus, Level: o.level, Size: size})
		}
	}
	h.NumberLLCs()
}

func (x *hwlocReader) setDevices(h *Host) {
	for _, o := range x.of("PCIDev") {
		kind, wanted := kindOfClass(o.class)
		found := o.names
		if len(found) == 0 && wanted {
			found = []Device{{Name: o.pci, Kind: kind}}
		}
		for _, d := range found {
			d.PCI = o.pci
			d.Root = o.root
			d.Node = oneNodeNear(h, o.cpus)
			if !slices.Contains(h.Devices, d) {
				h.Devices = append(h.Devices, d)
			}
		}
	}
	sortDevices(h.Devices)
}

func (x *hwlocReader) setDistances(h *Host) error {
	if x.matrix == nil {
		return nil
	}
	n := len(x.matrix.indexes)
	if len(x.matrix.vals) != n*n {
		return fmt.Errorf("distances2 NUMALatency has %s for %s; want %d", plural(len(x.matrix.vals), "value"),
			plural(n, "node"), n*n)
	}
	at := make([]int, n)
	for i, index := range x.matrix.indexes {
		at[i] = slices.IndexFunc(h.Nodes, func(n Node) bool { return strconv.Itoa(int(n.ID)) == index })
		if x.matrix.byGP {
			for _, o := range x.of("NUMANode") {
				if o.gp == index {
					at[i] = h.Index(NodeID(o.index))
				}
			}
		}
		if at[i] < 0 {
			return fmt.Errorf("distances2 NUMALatency names node %q, which is not there", clip(index))
		}
	}
	m := newMatrix(len(h.Nodes))
	for k, text := range x.matrix.vals {
		d, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return fmt.Errorf("distances2 NUMALatency holds %q, want a number", clip(text))
		}
		m[at[k/n]][at[k%n]] = int(d)
	}
	var notes []Note
	h.Distances, notes = judge(h.Nodes, m)
	h.Notes = append(h.Notes, notes...)
	return nil
}
