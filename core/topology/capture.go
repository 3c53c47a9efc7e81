package topology

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
)

// Leaf is one file or symbolic link of a captured machine.
type Leaf struct {
	Name string // slash-separated, from the root: sys/devices/system/cpu/online
	Data []byte
	Link string // target; "" for a file
}

// Capture takes from a live root what FromSysfs reads, and what lstopo would
// need to tell the same, so that the machine can be looked at elsewhere. By
// construction no other file is touched: none that holds a serial number, MAC
// or IP address, UUID, host name or firmware string. What could still name a
// machine in what is taken is rewritten: see rename and shortLink, /proc/cpuinfo,
// which keeps the CPU's model alone, and /proc/self/status, which keeps the two lines
// on what the process may use.
func Capture(fsys fs.FS) ([]Leaf, error) {
	c := &capture{fsys: fsys, leaves: map[string]Leaf{}, names: map[string]string{}, kernel: kernelNames()}
	host, err := FromSysfs(fsys)
	if err != nil {
		return nil, err
	}
	c.files(cpuDir, "online", "present", "possible")
	c.files(nodeDir, "online", "possible", "has_cpu", "has_memory")
	for cpu := range host.Online.Union(host.Offline).All() {
		c.cpu(cpu)
	}
	for _, n := range host.Nodes {
		c.node(n.ID)
	}
	c.memory(host)
	c.files("proc", "meminfo")
	if _, ok := c.leaves[nodePath(host.Nodes[0].ID, "meminfo")]; !ok {
		c.hugePages("sys/kernel/mm/hugepages")
	}
	for _, pmu := range []string{"cpu_core", "cpu_atom"} {
		c.files("sys/devices/"+pmu, "cpus")
	}
	if host.CPU != "" {
		c.add(Leaf{Name: "proc/cpuinfo", Data: []byte("model name\t: " + host.CPU + "\n")})
	}
	c.add(Leaf{Name: "proc/self/status", Data: fmt.Appendf(nil, "Cpus_allowed_list:\t%s\nMems_allowed_list:\t%s\n",
		host.Allowed, host.AllowedMems)})
	c.devices(host)
	out := make([]Leaf, 0, len(c.leaves))
	for _, l := range c.leaves {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Leaf) int { return strings.Compare(a.Name, b.Name) })
	return out, c.err
}

type capture struct {
	fsys   fs.FS
	leaves map[string]Leaf
	names  map[string]string // renamed devices
	kernel map[string]*regexp.Regexp
	err    error
}

func (c *capture) add(l Leaf) { c.leaves[l.Name] = l }

// files takes leaves of a folder; those that are absent or do not read are left out.
func (c *capture) files(dir string, names ...string) {
	for _, name := range names {
		f, err := c.fsys.Open(dir + "/" + name)
		if err != nil {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(f, maxLeaf))
		f.Close()
		if err == nil {
			c.add(Leaf{Name: dir + "/" + name, Data: data})
		}
	}
}

func (c *capture) cpu(cpu CPUID) {
	dir := strings.TrimSuffix(cpuPath(cpu, ""), "/")
	c.files(dir, "online", "cpu_capacity", "cpufreq/cpuinfo_max_freq", "cpufreq/base_frequency",
		"acpi_cppc/highest_perf")
	for _, group := range []string{"core_cpus", "thread_siblings", "package_cpus", "core_siblings", "die_cpus",
		"cluster_cpus"} {
		c.files(dir+"/topology", group, group+"_list")
	}
	c.files(dir+"/topology", "physical_package_id", "core_id", "die_id", "cluster_id")
	for i := range maxCaches {
		index := dir + "/cache/index" + strconv.Itoa(i)
		if _, err := fs.Stat(c.fsys, index); err != nil {
			break
		}
		c.files(index, "level", "type", "size", "id", "shared_cpu_map", "shared_cpu_list")
	}
	// Which node the scheduler counts the CPU to; needed where several list it.
	if entries, err := fs.ReadDir(c.fsys, dir); err == nil {
		for _, e := range entries {
			if _, ok := cutNumber(e.Name(), "node"); ok {
				c.add(Leaf{Name: dir + "/" + e.Name(), Link: "../../node/" + e.Name()})
			}
		}
	}
}

func (c *capture) node(id NodeID) {
	dir := nodeDir + "/" + nodeName(id)
	c.files(dir, "cpumap", "cpulist", "distance", "meminfo")
	c.hugePages(dir + "/hugepages")
	// The firmware's latencies, and the initiators they hold for.
	initiators := dir + "/access0/initiators"
	c.files(initiators, "read_latency", "read_bandwidth")
	if entries, err := fs.ReadDir(c.fsys, initiators); err == nil {
		for _, e := range entries {
			if _, ok := cutNumber(e.Name(), "node"); ok {
				c.add(Leaf{Name: initiators + "/" + e.Name(), Link: "../../../" + e.Name()})
			}
		}
	}
}

// memory takes the kernel's tiers, and the evidence for the memory of nodes without CPUs.
func (c *capture) memory(host *Host) {
	c.files("sys/kernel/mm/numa", "demotion_enabled")
	c.files("proc/sys/kernel", "numa_balancing")
	t := &tree{fsys: c.fsys}
	tiers, _ := t.names(tierDir)
	for _, name := range tiers[:min(len(tiers), maxTiers)] {
		if _, ok := cutNumber(name, "memory_tier"); ok {
			c.files(tierDir+"/"+name, "nodelist")
		}
	}
	if !slices.ContainsFunc(host.Nodes, func(n Node) bool { return n.Kind == Special }) {
		return
	}
	c.gpus(t)
	c.dax(t)
	c.regions(t, host)
}

// gpus takes the nodes that NVIDIA's driver names; the rest of the file is addresses.
func (c *capture) gpus(t *tree) {
	t.eachNVIDIA(func(pci string, node NodeID) {
		c.add(Leaf{Name: nvidiaDir + "/" + pci + "/numa_status", Data: fmt.Appendf(nil, "Node: %d\n", node)})
	})
}

// dax takes DAX devices with their nodes and, from their paths, buses and PCI functions.
func (c *capture) dax(t *tree) {
	names, _ := t.names(daxDir)
	for _, name := range names[:min(len(names), maxDax)] {
		target, err := fs.ReadLink(c.fsys, daxDir+"/"+name)
		node, ok := t.optional("devices", daxDir+"/"+name+"/target_node")
		if err != nil || !ok || !isDax(name) {
			continue
		}
		var kept []string
		for part := range strings.SplitSeq(target, "/") {
			_, nvdimm := cutNumber(part, "ndbus")
			_, region := cutNumber(part, "dax_region")
			if nvdimm || region || isPCIAddress(part) || part == "ACPI0017:00" {
				kept = append(kept, part)
			}
		}
		home := path.Join(append(append([]string{"sys/devices"}, kept...), name)...)
		c.add(Leaf{Name: home + "/target_node", Data: []byte(node + "\n")})
		c.add(Leaf{Name: daxDir + "/" + name, Link: "../../../" + strings.TrimPrefix(home, "sys/")})
		for _, part := range kept {
			if isPCIAddress(part) {
				c.files(pciDir+"/"+part, "class")
			}
		}
	}
}

// regions takes the lines of the resource map that name a type of memory, and the first memory block of each
// node without CPUs.
func (c *capture) regions(t *tree, host *Host) {
	var lines []byte
	for _, r := range t.regions() {
		lines = fmt.Appendf(lines, "%x-%x : %s\n", r.from, r.to, r.name)
	}
	if lines == nil {
		return
	}
	c.add(Leaf{Name: "proc/iomem", Data: lines})
	c.files(blockDir, "block_size_bytes")
	for _, n := range host.Nodes {
		dir := nodeDir + "/" + nodeName(n.ID)
		blocks, err := numbered[NodeID](t, dir, "memory")
		if n.Kind == Special && err == nil && !blocks.Empty() {
			block := "memory" + strconv.Itoa(int(blocks.Min()))
			c.add(Leaf{Name: dir + "/" + block, Link: "../../memory/" + block})
		}
	}
}

func (c *capture) hugePages(dir string) {
	entries, err := fs.ReadDir(c.fsys, dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "hugepages-") {
			c.files(dir+"/"+e.Name(), "nr_hugepages", "free_hugepages")
		}
	}
}

// devices takes the class and place of each PCI function in the host, under
// its full path, and the names that lead to it.
func (c *capture) devices(host *Host) {
	kept := map[string]bool{}
	for _, d := range host.Devices {
		if kept[d.PCI] {
			continue
		}
		kept[d.PCI] = true
		bus := pciDir + "/" + d.PCI
		c.files(bus, "class", "numa_node", "local_cpulist", "local_cpus")
		target, err := fs.ReadLink(c.fsys, bus)
		if err != nil {
			continue // a tree that holds folders instead of links
		}
		home := "sys/" + strings.TrimLeft(shortLink(target, "", ""), "./")
		for _, leaf := range []string{"class", "numa_node", "local_cpulist", "local_cpus"} {
			if l, ok := c.leaves[bus+"/"+leaf]; ok {
				delete(c.leaves, bus+"/"+leaf)
				l.Name = home + "/" + leaf
				c.add(l)
			}
		}
		c.add(Leaf{Name: bus, Link: "../../../" + strings.TrimPrefix(home, "sys/")})
		c.gpu(bus, home, d.PCI)
	}
	for _, class := range []string{"net", "infiniband", "drm", "accel", "block", "nvme"} {
		c.links("sys/class/"+class, class, kept)
	}
	c.links("sys/bus/dsa/devices", "", kept)
	c.subsystems()
}

// gpu captures the files by which a GPU differs from another display, and its model. UUIDs identify a
// machine and are left out.
func (c *capture) gpu(bus, home, pci string) {
	t := &tree{fsys: c.fsys}
	if driver := t.driver(pci); slices.Contains(gpuDrivers, driver) {
		c.add(Leaf{Name: home + "/driver", Link: "../../../bus/pci/drivers/" + driver})
	}
	if _, err := fs.ReadLink(c.fsys, bus+"/physfn"); err == nil {
		c.add(Leaf{Name: home + "/physfn", Link: "../" + pci})
	}
	if !t.isGPU(pci) {
		return
	}
	text, _, _ := t.read(nvidiaDir + "/" + pci + "/information")
	model, _, minor := ParseNVIDIA(text)
	if model != "" {
		c.add(Leaf{Name: nvidiaDir + "/" + pci + "/information", Data: fmt.Appendf(nil, "Model: %s\nDevice Minor: %d\n",
			model, minor)})
		return
	}
	if model = t.readGPU(pci).model; model != "" {
		c.add(Leaf{Name: home + "/product_name", Data: []byte(model + "\n")})
	}
}

// links takes those entries of a class folder that lead to a kept function.
// Virtual devices are left out: their names are given by people and programs.
func (c *capture) links(dir, class string, kept map[string]bool) {
	entries, err := fs.ReadDir(c.fsys, dir)
	if err != nil {
		return
	}
	t := &tree{fsys: c.fsys}
	for _, e := range entries {
		name := e.Name()
		target, err := fs.ReadLink(c.fsys, dir+"/"+name)
		if err != nil || !kept[t.lastFunction(dir+"/"+name)] {
			continue
		}
		if class == "block" &&
			slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == path.Base(path.Dir(target)) }) {
			continue // a partition
		}
		if name = c.rename(class, name); name == "" {
			continue
		}
		link := shortLink(target, class, name)
		c.add(Leaf{Name: dir + "/" + name, Link: link})
		if number, ok := t.quiet(dir + "/" + e.Name() + "/dev"); ok && charClass[class] && isCharNumber(number) {
			c.add(Leaf{Name: path.Join(dir, link, "dev"), Data: []byte(number + "\n")})
		}
	}
}

// charClass has the classes whose character devices are taken: those of GPUs.
var charClass = map[string]bool{"drm": true, "accel": true}

// subsystems takes the virtual folders that tie NVMe multipath disks to controllers.
func (c *capture) subsystems() {
	const dir = "sys/class/block"
	entries, err := fs.ReadDir(c.fsys, dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		target, err := fs.ReadLink(c.fsys, dir+"/"+e.Name())
		_, rest, ok := strings.Cut(target, "devices/virtual/nvme-subsystem/")
		if subsystem, disk, _ := strings.Cut(rest, "/"); err != nil || !ok || disk != e.Name() ||
			!c.kernel["block"].MatchString(disk) {
			continue
		} else {
			folder := "sys/devices/virtual/nvme-subsystem/" + subsystem
			members, _ := fs.ReadDir(c.fsys, folder)
			for _, m := range members {
				if _, ok := cutNumber(m.Name(), "nvme"); ok {
					c.add(Leaf{Name: folder + "/" + m.Name(), Link: "../../../../class/nvme/" + m.Name()})
				}
			}
			c.add(Leaf{Name: dir + "/" + disk, Link: "../../devices/virtual/nvme-subsystem/" + rest})
		}
	}
}

// kernelNames returns the forms of the names that the kernel or udev's own rules give
// (systemd.net-naming-scheme(7), rdma_rename(8)). They tell slots, not machines.
func kernelNames() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"net":        regexp.MustCompile(`^((eth|em|ib|wlan|wwan)\d{1,4}|(en|ib|wl|ww)[ospP]\d[0-9a-z]{0,11}|p\d+p\d+(_\d+)?)$`),
		"infiniband": regexp.MustCompile(`^((mlx[45]_|qib|hfi1_|irdma|bnxt_re|cxgb4_|efa_|erdma_|hns_|mana_|ocrdma|qedr)\d{1,4}|(roce|ib|iw)[osp]\d[0-9a-z]{0,11})$`),
		"accel":      regexp.MustCompile(`^accel\d+$`),
		"drm":        regexp.MustCompile(`^(card|renderD)\d+$`),
		"block":      regexp.MustCompile(`^((sd|vd|xvd|hd)[a-z]{1,4}|(sr|mmcblk)\d{1,4}|nvme\d+(c\d+)?n\d+)$`),
		"nvme":       regexp.MustCompile(`^nvme\d+$`),
		"":           regexp.MustCompile(`^(dsa|iax)\d+$`),
	}
}

// rename keeps a name that the kernel or udev made. Of others, it numbers
// network and RDMA devices (people put host names into their names, and udev
// MAC addresses, as in enx…) and drops the rest.
func (c *capture) rename(class, name string) string {
	stem := map[string]string{"net": "nic", "infiniband": "rdma"}[class]
	if c.kernel[class].MatchString(name) || stem == "" {
		return c.kernel[class].FindString(name)
	}
	if _, ok := c.names[class+"/"+name]; !ok {
		c.names[class+"/"+name] = stem + strconv.Itoa(len(c.names))
	}
	return c.names[class+"/"+name]
}

// shortLink keeps of a link into /sys/devices the PCI root and functions: what
// is between (SCSI hosts, USB ports, iSCSI sessions, SAS addresses) can name a machine.
func shortLink(target, class, name string) string {
	var kept []string
	up := 0
	for part := range strings.SplitSeq(target, "/") {
		rest, root := strings.CutPrefix(part, "pci")
		switch {
		case part == "..":
			up++
		case part == "devices" || isPCIAddress(part) ||
			(root && strings.Contains(rest, ":") && isHex(strings.ReplaceAll(rest, ":", ""))):
			kept = append(kept, part)
		}
	}
	if class != "" {
		kept = append(kept, class)
	}
	if name != "" {
		kept = append(kept, name)
	}
	return strings.Repeat("../", up) + strings.Join(kept, "/")
}

// Limits of a tar file: 4,096 CPUs make some 200,000 leaves of a few bytes.
const (
	maxCaptureLeaves = 1 << 19
	maxCaptureBytes  = 1 << 28
	maxLinks         = 40 // followed for one name, as the kernel's MAXSYMLINKS
)

// OpenCapture reads a tar of sys/ and proc/ into memory. A single folder around
// the two is looked through, as tar archives often have one.
func OpenCapture(r *tar.Reader) (fs.FS, error) {
	m := fstest.MapFS{}
	total := int64(0)
	for n := 0; ; n++ {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read tar entry %d: %w; give a tar file that `homenode gather` wrote", n+1, err)
		}
		name := path.Clean(strings.TrimLeft(head.Name, "/"))
		if total += head.Size; n == maxCaptureLeaves || total > maxCaptureBytes {
			return nil, fmt.Errorf("read tar entry %d: the archive is too large for a captured machine", n+1)
		}
		if !fs.ValidPath(name) {
			return nil, fmt.Errorf("read tar entry %d: name %q leaves the archive", n+1, clip(head.Name))
		}
		switch head.Typeflag {
		case tar.TypeReg:
			var data bytes.Buffer
			if _, err := io.Copy(&data, r); err != nil {
				return nil, fmt.Errorf("read tar entry %d: %w", n+1, err)
			}
			m[name] = &fstest.MapFile{Data: data.Bytes()}
		case tar.TypeSymlink:
			m[name] = &fstest.MapFile{Data: []byte(head.Linkname), Mode: fs.ModeSymlink}
		case tar.TypeDir:
			if name != "." {
				m[name] = &fstest.MapFile{Mode: fs.ModeDir}
			}
		}
	}
	dropLoops(m)
	return rooted(m)
}

// dropLoops removes links that never end; MapFS would follow them for ever.
func dropLoops(m fstest.MapFS) {
	for name, file := range m {
		if file.Mode&fs.ModeSymlink != 0 && !resolves(m, name) {
			delete(m, name)
		}
	}
}

func resolves(m fstest.MapFS, name string) bool {
	for range maxLinks {
		next, linked := followOne(m, name)
		if !linked {
			return true
		}
		name = next
	}
	return false
}

// followOne replaces the first link on a path by its target.
func followOne(m fstest.MapFS, name string) (string, bool) {
	for end := 0; end < len(name); {
		next := strings.IndexByte(name[end+1:], '/')
		if end = end + 1 + next; next < 0 {
			end = len(name)
		}
		if f, ok := m[name[:end]]; ok && f.Mode&fs.ModeSymlink != 0 {
			return path.Join(path.Dir(name[:end]), string(f.Data), name[end:]), true
		}
	}
	return name, false
}

// rooted finds the folder that holds sys/.
func rooted(m fstest.MapFS) (fs.FS, error) {
	for dir, depth := ".", 0; depth < 3; depth++ {
		entries, err := fs.ReadDir(m, dir)
		if err != nil {
			break
		}
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "sys" }) {
			if dir == "." {
				return m, nil
			}
			return below(m, dir), nil
		}
		if len(entries) != 1 {
			break
		}
		dir = path.Join(dir, entries[0].Name())
	}
	return nil, fmt.Errorf("no sys/ in the archive; give a tar file that `homenode gather` wrote")
}

// below takes a folder out of the map; fs.Sub would lose the links.
func below(m fstest.MapFS, dir string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, f := range m {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			out[rest] = f
		}
	}
	return out
}
