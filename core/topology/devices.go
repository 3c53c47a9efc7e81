package topology

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const pciDir = "sys/bus/pci/devices"

// readDevices finds the PCI functions that matter for placing, and the kernel
// names that lead to them. It lists the PCI bus and a few class folders, whose
// entries are links into /sys/devices; it does not walk /sys/devices.
func readDevices(t *tree, h *Host) {
	functions, err := t.names(pciDir)
	if err != nil {
		t.note("devices", "%s cannot be read: %v", pciDir, rootCause(err))
		return
	}
	if len(functions) == 0 {
		return
	}
	named := t.deviceNames()
	var lost []string
	for _, pci := range functions {
		if !isPCIAddress(pci) {
			continue
		}
		text, ok := t.optional("devices", pciDir+"/"+pci+"/class")
		class, err := strconv.ParseUint(text, 0, 32)
		if !ok || err != nil {
			continue
		}
		found := named[pci]
		kind, wanted := kindOfClass(uint32(class))
		if len(found) == 0 && wanted {
			found = []Device{{Name: pci, Kind: kind}}
		}
		if len(found) == 0 {
			continue
		}
		node, why := t.deviceNode(h, pci)
		if node == None {
			lost = append(lost, found[0].Name+why)
		}
		root, bridges := t.pciPath(pci)
		for _, d := range found {
			d.Kind = cmp.Or(d.Kind, kind)
			d.PCI = pci
			d.Node = node
			d.Root = root
			d.Bridges = bridges
			h.Devices = append(h.Devices, d)
		}
	}
	sortDevices(h.Devices)
	t.nameGPUs(h)
	if len(lost) > 0 {
		t.note("devices", "the firmware gives no usable node for %s", some(lost))
	}
}

func sortDevices(devices []Device) {
	slices.SortFunc(devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.PCI, b.PCI), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
}

// kindOfClass reads a PCI class code (include/linux/pci_ids.h): base class,
// subclass, programming interface.
func kindOfClass(class uint32) (kind DeviceKind, wanted bool) {
	switch base, sub := class>>16, class>>8; {
	case sub == 0x0108:
		return NVMe, true
	case base == 0x01:
		return Storage, true
	case sub == 0x0207 || sub == 0x0c06: // InfiniBand
		return Accel, true
	case base == 0x02:
		return NIC, true
	case base == 0x03:
		return GPU, true
	case base == 0x12 || sub == 0x0b40: // processing accelerator, co-processor
		return Accel, true
	}
	return "", false
}

// deviceNames maps PCI functions to the kernel's names for what they serve. A
// device without a Kind takes that of its function's class.
func (t *tree) deviceNames() map[string][]Device {
	named := map[string][]Device{}
	add := func(pci string, d Device) {
		if pci != "" && !slices.Contains(named[pci], d) {
			named[pci] = append(named[pci], d)
		}
	}
	for _, name := range t.links("sys/class/net") {
		add(t.lastFunction("sys/class/net/"+name), Device{Name: name, Kind: NIC})
	}
	for _, name := range t.links("sys/class/infiniband") {
		add(t.lastFunction("sys/class/infiniband/"+name), Device{Name: name, Kind: Accel})
	}
	for _, name := range t.links("sys/class/drm") {
		if _, ok := cutNumber(name, "card"); ok {
			add(t.lastFunction("sys/class/drm/"+name), Device{Name: name, Kind: GPU})
		}
	}
	for _, name := range t.links("sys/class/accel") {
		if _, ok := cutNumber(name, "accel"); ok {
			add(t.lastFunction("sys/class/accel/"+name), Device{Name: name, Kind: Accel})
		}
	}
	for _, name := range t.links("sys/bus/dsa/devices") {
		// The bus also holds work queues, wq0.1.
		if !strings.Contains(name, ".") && !strings.Contains(name, "!") {
			add(t.lastFunction("sys/bus/dsa/devices/"+name), Device{Name: name, Kind: Accel})
		}
	}
	t.blockNames(add)
	return named
}

// blockNames names disks. With native NVMe multipath (drivers/nvme/host/multipath.c)
// a name space hangs under a virtual subsystem, and only its controllers lead
// to PCI functions.
func (t *tree) blockNames(add func(pci string, d Device)) {
	served := map[string]bool{}
	const dir = "sys/class/block"
	names := t.links(dir)
	for _, name := range names {
		link := dir + "/" + name
		target, err := fs.ReadLink(t.fsys, link)
		if err != nil {
			continue
		}
		// Partitions are here too, inside the folder of their disk: …/block/sda/sda1.
		if _, partition := slices.BinarySearch(names, path.Base(path.Dir(target))); partition {
			continue
		}
		if pci := t.lastFunction(link); pci != "" {
			kind := DeviceKind("")
			if strings.HasPrefix(name, "nvme") {
				kind = NVMe
			}
			// nvme0c1n1 is one path of nvme0n1, not a disk of its own.
			if rest, ok := strings.CutPrefix(name, "nvme"); !ok || !strings.Contains(rest, "c") {
				add(pci, Device{Name: name, Kind: kind})
				served[pci] = true
			}
			continue
		}
		if !strings.Contains(target, "/nvme-subsystem/") {
			continue
		}
		for _, member := range t.links(path.Join(dir, path.Dir(target))) {
			if _, ok := cutNumber(member, "nvme"); ok {
				if pci := t.lastFunction("sys/class/nvme/" + member); pci != "" {
					add(pci, Device{Name: name, Kind: NVMe})
					served[pci] = true
				}
			}
		}
	}
	for _, name := range t.links("sys/class/nvme") {
		if pci := t.lastFunction("sys/class/nvme/" + name); !served[pci] {
			add(pci, Device{Name: name, Kind: NVMe})
		}
	}
}

// links lists a folder that may be absent; trouble with it costs only names.
func (t *tree) links(dir string) []string {
	names, err := t.names(dir)
	if err != nil {
		t.note("devices", "%s cannot be read: %v", dir, rootCause(err))
	}
	return names
}

// lastFunction is the PCI function nearest to the device that a link leads to,
// "" for a virtual one: ../../devices/pci0000:00/0000:00:05.0/0000:02:00.0/net/eth0.
func (t *tree) lastFunction(link string) string {
	target, err := fs.ReadLink(t.fsys, link)
	if err != nil {
		return ""
	}
	last := ""
	for part := range strings.SplitSeq(target, "/") {
		if isPCIAddress(part) {
			last = part
		}
	}
	return last
}

// pciPath is the PCI root a function hangs under and the bridges between them, "" when the entry
// on the bus is no link. Behind Intel VMD the path holds a second root, pci10000:00, inside
// the first, which is the real one.
func (t *tree) pciPath(pci string) (root, bridges string) {
	target, _ := fs.ReadLink(t.fsys, pciDir+"/"+pci)
	var above []string
	for part := range strings.SplitSeq(target, "/") {
		rest, ok := strings.CutPrefix(part, "pci")
		switch {
		case ok && strings.Contains(rest, ":"):
			root = cmp.Or(root, part)
		case root != "" && part != pci && isPCIAddress(part):
			above = append(above, part)
		}
	}
	return root, strings.Join(above, "/")
}

// deviceNode reads numa_node, and where that is -1 the CPUs near the device
// (drivers/pci/pci-sysfs.c). why is set when neither tells.
func (t *tree) deviceNode(h *Host, pci string) (node NodeID, why string) {
	dir := pciDir + "/" + pci
	if text, ok := t.optional("devices", dir+"/numa_node"); ok {
		if id, err := strconv.Atoi(text); err == nil && id >= 0 {
			if h.Index(NodeID(id)) >= 0 {
				return NodeID(id), ""
			}
			return None, " (node" + strconv.Itoa(id) + " is not online)"
		}
	}
	local, ok, err := t.cpuSet(dir, "local_cpulist", "local_cpus")
	if err != nil || !ok {
		return None, ""
	}
	return oneNodeNear(h, local), ""
}

// oneNodeNear is the node whose CPUs are near a device, None when there are
// several. Firmware that does not know says "all CPUs"; where the CPUs of other
// nodes are absent from the list it does know, and on a host of one node there
// is no doubt.
func oneNodeNear(h *Host, local CPUSet) NodeID {
	near := h.NodesOf(local)
	if near.Len() == 1 {
		return near.Min()
	}
	return None
}

// isPCIAddress tells "0000:3b:00.0". The domain has four digits or more.
func isPCIAddress(s string) bool {
	domain, rest, ok := strings.Cut(s, ":")
	return ok && len(domain) >= 4 && len(domain) <= 8 && isHex(domain) && len(rest) == 7 &&
		isHex(rest[:2]) && rest[2] == ':' && isHex(rest[3:5]) && rest[5] == '.' && rest[6] >= '0' && rest[6] <= '7'
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

func cutNumber(s, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return 0, false
	}
	n, err := parseID(digits)
	return n, err == nil
}
