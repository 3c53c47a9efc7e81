package domain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
)

// at is the first element under the root by the tags of a path; nil when there is none.
func (d *Document) at(path ...string) *etree.Element {
	el := d.tree.Root()
	for _, tag := range path {
		if el = el.SelectElement(tag); el == nil {
			return nil
		}
	}
	return el
}

// text is the trimmed text of an element, "" without it.
func (d *Document) textAt(path ...string) string {
	if el := d.at(path...); el != nil {
		return strings.TrimSpace(el.Text())
	}
	return ""
}

// Name is the name of the guest.
func (d *Document) Name() string { return d.textAt("name") }

// UUID is the guest's, "" when it has none yet.
func (d *Document) UUID() string { return d.textAt("uuid") }

// mostVCPUs is libvirt's own bound for a vCPU count (QEMU takes fewer).
const mostVCPUs = 1 << 15

// vcpus is how many vCPUs the guest may have, and how many it has now.
func (d *Document) vcpus() (most, now int, err error) {
	el := d.at("vcpu")
	if el == nil {
		return 1, 1, nil // libvirt's default
	}
	if most, err = strconv.Atoi(strings.TrimSpace(el.Text())); err != nil || most < 1 || most > mostVCPUs {
		return 0, 0, fmt.Errorf("vcpu: %q; want 1 to %d", el.Text(), mostVCPUs)
	}
	now = most
	if current := el.SelectAttrValue("current", ""); current != "" {
		if now, err = strconv.Atoi(current); err != nil || now < 1 || now > most {
			return 0, 0, fmt.Errorf("vcpu current: %q; want 1 to %d", current, most)
		}
	}
	return most, now, nil
}

// VCPUs is how many vCPUs the guest may have, and how many it has now.
func (d *Document) VCPUs() (most, now int, err error) { return d.vcpus() }

// units are libvirt's names for amounts (virScaleInteger), in bytes.
var units = map[string]uint64{
	"b": 1, "byte": 1, "bytes": 1,
	"kb": 1e3, "k": 1 << 10, "kib": 1 << 10, "mb": 1e6, "m": 1 << 20, "mib": 1 << 20, "gb": 1e9, "g": 1 << 30,
	"gib": 1 << 30,
	"tb":  1e12, "t": 1 << 40, "tib": 1 << 40, "pb": 1e15, "p": 1 << 50, "pib": 1 << 50,
}

// amount reads a number with a unit; without one it is in KiB.
func amount(number, unit string) (topology.KiB, error) {
	unit = cmp.Or(unit, "KiB")
	scale, ok := units[strings.ToLower(unit)]
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 62)
	if !ok || err != nil || n > (1<<60)/scale {
		return 0, fmt.Errorf("%q %q; want a number and a unit, up to 2^60 bytes", number, unit)
	}
	return topology.KiB((n*scale + 1023) / 1024), nil
}

// memory is the memory the guest may have at most, plugged DIMMs included.
func (d *Document) memory() (topology.KiB, error) {
	el := d.at("memory")
	if el == nil {
		return 0, nil
	}
	n, err := amount(el.Text(), el.SelectAttrValue("unit", ""))
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return n, nil
}

// pages is the page sizes of the guest's memory, 0 for ordinary pages.
type pages struct {
	rest topology.KiB         // of what no cell says
	cell map[int]topology.KiB // by cell, where they say it
}

// of is the page size of a cell; -1 is what lies in none.
func (p *pages) of(cell int) topology.KiB {
	if size, ok := p.cell[cell]; ok {
		return size
	}
	return p.rest
}

// hugePages reads memoryBacking: a <page> with a nodeset is for those cells of the guest,
// one without for all others.
func (d *Document) hugePages(h *topology.Host) (pages, error) {
	out := pages{cell: map[int]topology.KiB{}}
	el := d.at("memoryBacking", "hugepages")
	if el == nil {
		return out, nil
	}
	all := el.SelectElements("page")
	if len(all) == 0 {
		out.rest = defaultPage(h)
	}
	for _, page := range all {
		size, err := amount(page.SelectAttrValue("size", ""), page.SelectAttrValue("unit", ""))
		if err != nil || size == 0 {
			return out, fmt.Errorf("hugepages: page size %q", page.SelectAttrValue("size", ""))
		}
		cells, err := attrSet[int](page, "nodeset")
		if err != nil {
			return out, err
		}
		if page.SelectAttr("nodeset") == nil {
			out.rest = size
		}
		for cell := range cells.All() {
			out.cell[cell] = size
		}
	}
	return out, nil
}

// defaultPage is the host's default size of huge pages, which libvirt takes where none is
// named: the only one the host has, or else 2 MiB.
func defaultPage(h *topology.Host) topology.KiB {
	var sizes []topology.KiB
	for _, n := range h.Nodes {
		for _, p := range n.HugePages {
			if p.Total > 0 && (len(sizes) == 0 || sizes[0] != p.Size) {
				sizes = append(sizes, p.Size)
			}
		}
	}
	if len(sizes) == 1 {
		return sizes[0]
	}
	return 2048
}

// parseSet reads libvirt's list format, which besides the kernel's knows ^N for
// "not N" (virBitmapParse).
func parseSet[T ~int](list string) (topology.Set[T], error) {
	var yes, no []string
	for part := range strings.SplitSeq(list, ",") {
		if out, ok := strings.CutPrefix(strings.TrimSpace(part), "^"); ok {
			no = append(no, out)
		} else {
			yes = append(yes, part)
		}
	}
	s, err := topology.ParseSet[T](strings.Join(yes, ","))
	if err != nil {
		return s, err
	}
	minus, err := topology.ParseSet[T](strings.Join(no, ","))
	return s.Minus(minus), err
}

// attrSet reads the list in an attribute; empty without it.
func attrSet[T ~int](el *etree.Element, attr string) (topology.Set[T], error) {
	if el == nil {
		return topology.Set[T]{}, nil
	}
	s, err := parseSet[T](el.SelectAttrValue(attr, ""))
	if err != nil {
		return s, fmt.Errorf("%s: %s %w", el.Tag, attr, err)
	}
	return s, nil
}

// vcpuPins is the CPU set each vCPU is pinned to by itself; no entry for others.
func (d *Document) vcpuPins() (map[int]topology.CPUSet, error) {
	pins := map[int]topology.CPUSet{}
	tune := d.at("cputune")
	if tune == nil {
		return pins, nil
	}
	for _, el := range tune.SelectElements("vcpupin") {
		vcpu, err := strconv.Atoi(el.SelectAttrValue("vcpu", ""))
		if err != nil || vcpu < 0 || vcpu >= mostVCPUs {
			return nil, fmt.Errorf("vcpupin: vcpu %q", el.SelectAttrValue("vcpu", ""))
		}
		if pins[vcpu], err = attrSet[topology.CPUID](el, "cpuset"); err != nil {
			return nil, err
		}
	}
	return pins, nil
}

// ThreadKind is a kind of thread of a guest.
type ThreadKind string

// Kinds of thread, by the element that pins them.
const (
	VCPU           ThreadKind = "vcpupin"
	EmulatorThread ThreadKind = "emulatorpin"
	IOThread       ThreadKind = "iothreadpin"
)

// Thread is one thread of a guest, or the emulator's, which have no ID.
type Thread struct {
	Kind ThreadKind
	ID   uint32
	Off  bool // a vCPU that is not plugged in
}

// Pins tells the CPUs that the document, as it is now, lets a thread run on: its own pin,
// else <vcpu cpuset>; empty when neither says.
func (d *Document) Pins() func(Thread) (topology.CPUSet, error) {
	type thread struct {
		kind ThreadKind
		id   string
	}
	own := map[thread]*etree.Element{}
	if tune := d.at("cputune"); tune != nil {
		for _, el := range tune.ChildElements() {
			t := thread{kind: ThreadKind(el.Tag)}
			switch t.kind {
			case VCPU:
				t.id = el.SelectAttrValue("vcpu", "")
			case IOThread:
				t.id = el.SelectAttrValue("iothread", "")
			}
			if own[t] == nil {
				own[t] = el
			}
		}
	}
	rest := d.at("vcpu")
	return func(t Thread) (topology.CPUSet, error) {
		key := thread{kind: t.Kind}
		if t.Kind != EmulatorThread {
			key.id = strconv.FormatUint(uint64(t.ID), 10)
		}
		return attrSet[topology.CPUID](cmp.Or(own[key], rest), "cpuset")
	}
}

// guestCell is a NUMA node that the guest sees.
type guestCell struct {
	vcpus  guest.VCPUs
	memory topology.KiB
	on     topology.NodeSet // from its memnode; empty without one
}

// guestCells is the guest's NUMA nodes by id; nil when it sees none.
func (d *Document) guestCells() ([]guestCell, error) {
	numa := d.at("cpu", "numa")
	if numa == nil {
		return nil, nil
	}
	els := numa.SelectElements("cell")
	cells := make([]guestCell, len(els))
	for i, el := range els {
		id, err := strconv.Atoi(el.SelectAttrValue("id", strconv.Itoa(i)))
		if err != nil || id < 0 || id >= len(els) {
			return nil, fmt.Errorf("numa: cell id %q of %d cells", el.SelectAttrValue("id", ""), len(els))
		}
		if cells[id].memory, err = amount(el.SelectAttrValue("memory", "0"),
			el.SelectAttrValue("unit", "")); err != nil {
			return nil, fmt.Errorf("numa: cell %d: memory %w", id, err)
		}
		if cells[id].vcpus, err = attrSet[int](el, "cpus"); err != nil {
			return nil, err
		}
	}
	if tune := d.at("numatune"); tune != nil {
		for _, el := range tune.SelectElements("memnode") {
			id, err := strconv.Atoi(el.SelectAttrValue("cellid", ""))
			if err != nil || id < 0 || id >= len(cells) {
				return nil, fmt.Errorf("memnode: cellid %q of %d cells", el.SelectAttrValue("cellid", ""), len(cells))
			}
			if cells[id].on, err = attrSet[topology.NodeID](el, "nodeset"); err != nil {
				return nil, err
			}
		}
	}
	return cells, nil
}

// hostDevices is the PCI addresses of what the guest has whole, NICs included.
func (d *Document) hostDevices() []string {
	var out []string
	devices := d.at("devices")
	if devices == nil {
		return nil
	}
	for _, el := range devices.ChildElements() {
		if (el.Tag != "hostdev" && el.Tag != "interface") ||
			el.SelectAttrValue("type", "") != map[string]string{"hostdev": "pci", "interface": "hostdev"}[el.Tag] {
			continue
		}
		source := el.SelectElement("source")
		if source == nil || source.SelectElement("address") == nil {
			continue
		}
		a := source.SelectElement("address")
		part := func(attr string) uint64 {
			n, _ := strconv.ParseUint(a.SelectAttrValue(attr, "0"), 0, 32)
			return n
		}
		out = append(out, fmt.Sprintf("%04x:%02x:%02x.%x", part("domain"), part("bus"), part("slot"), part("function")))
	}
	return out
}

// directNICs is the host NICs that NICs of the guest sit on (macvtap).
func (d *Document) directNICs() []string {
	var out []string
	for _, el := range d.devices("interface") {
		if source := el.SelectElement("source"); source != nil && el.SelectAttrValue("type", "") == "direct" {
			if dev := source.SelectAttrValue("dev", ""); dev != "" {
				out = append(out, dev)
			}
		}
	}
	return out
}

// devices is the guest's devices of one kind.
func (d *Document) devices(tag string) []*etree.Element {
	if all := d.at("devices"); all != nil {
		return all.SelectElements(tag)
	}
	return nil
}

// Run is libvirt's ID of the run that the document tells of; 0 for a guest that is off.
func (d *Document) Run() int {
	n, err := strconv.Atoi(d.tree.Root().SelectAttrValue("id", "0"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Bound is where the document binds the vCPUs that the guest has now, and its memory;
// empty for nowhere.
func (d *Document) Bound() (cpus topology.CPUSet, nodes topology.NodeSet, err error) {
	_, now, err := d.vcpus()
	if err != nil {
		return cpus, nodes, err
	}
	pins := d.Pins()
	for vcpu := range now {
		own, err := pins(Thread{Kind: VCPU, ID: uint32(vcpu)})
		if err != nil {
			return cpus, nodes, err
		}
		cpus = cpus.Union(own)
	}
	nodes, err = d.boundNodes()
	return cpus, nodes, err
}

// boundNodes is where the document binds memory: all of it or, of a guest whose cells are
// placed one by one, that of its cells.
func (d *Document) boundNodes() (nodes topology.NodeSet, err error) {
	memory := d.at("numatune", "memory")
	if mark, _ := d.Mark(); memory != nil || !mark.floats() {
		return attrSet[topology.NodeID](memory, "nodeset")
	}
	cells, err := d.guestCells()
	for i := range cells {
		nodes = nodes.Union(cells[i].on)
	}
	return nodes, err
}

// NICs is the MAC addresses of the NICs whose traffic the host can limit: libvirt knows
// them by these, running or not.
func (d *Document) NICs() []string {
	var out []string
	for _, el := range d.devices("interface") {
		mac := el.SelectElement("mac")
		switch el.SelectAttrValue("type", "") {
		case "network", "bridge", "direct", "ethernet":
			if mac != nil && mac.SelectAttrValue("address", "") != "" {
				out = append(out, mac.SelectAttrValue("address", ""))
			}
		}
	}
	return out
}

// Disks is the names, such as vda, of the disks that are no removable media.
func (d *Document) Disks() []string {
	var out []string
	for _, el := range d.devices("disk") {
		target := el.SelectElement("target")
		switch el.SelectAttrValue("device", "disk") {
		case "disk", "lun":
			if target != nil && target.SelectAttrValue("dev", "") != "" {
				out = append(out, target.SelectAttrValue("dev", ""))
			}
		}
	}
	return out
}
