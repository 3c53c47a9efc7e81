package measure

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// NewDocument holds the machine and no measurement. fsys is its root, with
// sys/ and proc/; what it does not tell stays unknown.
func NewDocument(fsys fs.FS, h *topology.Host) *Document {
	d := &Document{Schema: Schema}
	d.SLIT = rawSLIT(fsys, h)
	d.Host = hostOf(fsys, h)
	for _, n := range h.Nodes {
		d.Nodes = append(d.Nodes, Node{
			ID: int(n.ID), CPUs: n.CPUs, Mem: bytesOf(n.Memory), Free: bytesOf(n.Free), Kind: string(n.Kind),
			Type: string(n.Type), TypeBy: n.Evidence, ChannelMBs: Unknown,
			HMATLatency: access(fsys, n.ID, "read_latency"), HMATMBs: access(fsys, n.ID, "read_bandwidth"),
		})
	}
	d.Host.Fingerprint = Fingerprint(fsys, h)
	return d
}

func bytesOf(k topology.KiB) *int64 {
	if k == topology.None {
		return nil
	}
	return new(int64(k) << 10)
}

// arch is uname -m, which kernels from 6.1 on tell in a file, or what the form
// of /proc/cpuinfo gives away.
func arch(fsys fs.FS) string {
	if a := leaf(fsys, "proc/sys/kernel/arch"); a != "" {
		return a
	}
	info := leaf(fsys, "proc/cpuinfo")
	switch {
	case strings.Contains(info, "vendor_id\t: GenuineIntel"), strings.Contains(info, "vendor_id\t: AuthenticAMD"),
		strings.Contains(info, "vendor_id\t: HygonGenuine"):
		return "x86_64"
	case strings.Contains(info, "CPU implementer"):
		return "aarch64"
	}
	return ""
}

// leaf is the trimmed text of a small file, "" when it cannot be read.
func leaf(fsys fs.FS, name string) string {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \t\r\n\x00")
}

func hostOf(fsys fs.FS, h *topology.Host) Host {
	out := Host{
		CPUs: h.Online.Len(), Kernel: leaf(fsys, "proc/sys/kernel/osrelease"), Virt: Virt(fsys),
		THP: bracketed(leaf(fsys, "sys/kernel/mm/transparent_hugepage/enabled")), CmdlineNUMA: Cmdline(fsys),
	}
	out.CPU, out.Arch = topology.CPUModel(fsys), arch(fsys)
	out.ID = strings.TrimSpace(leaf(fsys, "sys/class/dmi/id/sys_vendor") + " " +
		leaf(fsys, "sys/class/dmi/id/product_name"))
	for _, l := range h.LLCs {
		size := max(0, int64(l.Size)<<10)
		out.LLC = max(out.LLC, size)
		out.Caches = append(out.Caches, LastCache{l.CPUs, l.Level, size})
	}
	for _, p := range h.Packages {
		out.Packages = append(out.Packages, Package{int(p.ID), p.CPUs})
	}
	if len(out.Packages) == 0 {
		out.Packages = []Package{{0, h.Online}}
	}
	return out
}

// Caches are the data and unified caches of a CPU, smallest first
// (drivers/base/cacheinfo.c: cpuN/cache/indexM/{level,type,size}); nil when the kernel
// tells none, as in many guests.
func Caches(fsys fs.FS, cpu topology.CPUID) []Cache {
	var out []Cache
	for i := range 16 { // more folders than any CPU has
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index%d/", cpu, i)
		kind := leaf(fsys, dir+"type")
		kib, err := strconv.ParseUint(strings.TrimSuffix(leaf(fsys, dir+"size"), "K"), 10, 32)
		if (kind != "Data" && kind != "Unified") || err != nil || kib == 0 {
			continue
		}
		name := "L" + leaf(fsys, dir+"level")
		if kind == "Data" {
			name += "d"
		}
		out = append(out, Cache{name, int64(kib) << 10})
	}
	slices.SortStableFunc(out, func(a, b Cache) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return out
}

// bracketed is the chosen word of "always [madvise] never".
func bracketed(s string) string {
	_, rest, ok := strings.Cut(s, "[")
	if !ok {
		return s
	}
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// Cmdline keeps the words of the kernel command line that decide on NUMA; nil
// when it cannot be read.
func Cmdline(fsys fs.FS) []string {
	return Arguments(fsys, "numa", "acpi", "numa_balancing", "maxcpus", "nr_cpus", "mem")
}

// Arguments is the words of the kernel command line with these keys; nil when it
// cannot be read.
func Arguments(fsys fs.FS, keys ...string) []string {
	b, err := fs.ReadFile(fsys, "proc/cmdline")
	if err != nil {
		return nil
	}
	out := []string{}
	for word := range strings.FieldsSeq(string(b)) {
		if key, _, _ := strings.Cut(word, "="); slices.Contains(keys, key) {
			out = append(out, word)
		}
	}
	return out
}

// Virt tells whether this is a virtual machine: "none", "vm" or the
// hypervisor's name; "" when nothing tells.
func Virt(fsys fs.FS) string {
	if kind := leaf(fsys, "sys/hypervisor/type"); kind != "" {
		return kind
	}
	vendor := leaf(fsys, "sys/class/dmi/id/sys_vendor") + " " + leaf(fsys, "sys/class/dmi/id/product_name")
	for mark, name := range map[string]string{
		"QEMU": "qemu", "KVM": "kvm", "VMware": "vmware", "VirtualBox": "virtualbox", "innotek": "virtualbox",
		"Xen":             "xen",
		"Virtual Machine": "hyperv", "Amazon EC2": "ec2", "Google Compute": "gce", "OpenStack": "openstack",
		"Bochs": "bochs",
	} {
		// EC2 has bare metal under the same vendor; there the CPU flag decides.
		if strings.Contains(vendor, mark) && name != "ec2" {
			return name
		}
	}
	info := leaf(fsys, "proc/cpuinfo")
	if info == "" {
		return ""
	}
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "flags" {
			if slices.Contains(strings.Fields(value), "hypervisor") {
				return "vm"
			}
			return "none"
		}
	}
	if strings.TrimSpace(vendor) != "" {
		return "none"
	}
	return ""
}

// rawSLIT is nodeN/distance as the kernel tells it, wrong values and all:
// topology takes those out, and here they are what is looked for.
func rawSLIT(fsys fs.FS, h *topology.Host) Table {
	t := NewTable(len(h.Nodes), len(h.Nodes))
	found := false
	for i, n := range h.Nodes {
		fields := strings.Fields(leaf(fsys, fmt.Sprintf("sys/devices/system/node/node%d/distance", n.ID)))
		if len(fields) != len(h.Nodes) {
			continue
		}
		for j, f := range fields {
			if v, err := strconv.ParseUint(f, 10, 16); err == nil {
				t[i][j], found = Value(v), true
			}
		}
	}
	if !found {
		return nil
	}
	return t
}

// access is what the kernel took from the HMAT for a node's nearest initiators
// (drivers/base/node.c). 0 means that the table does not say.
func access(fsys fs.FS, id topology.NodeID, file string) Value {
	for _, class := range []string{"access0", "access1"} {
		v,
			err := strconv.ParseUint(leaf(fsys, fmt.Sprintf("sys/devices/system/node/node%d/%s/initiators/%s", id,
			class, file)), 10, 48)
		if err == nil && v > 0 {
			return Value(v)
		}
	}
	return Unknown
}

// Fingerprint names the hardware and kernel that a measurement holds for:
// board and firmware, CPU and microcode, kernel, nodes with their CPUs and
// memory, SLIT. The DIMM map of SMBIOS is readable to root only, and a
// fingerprint must be the same for all users; memory per node stands for it.
func Fingerprint(fsys fs.FS, h *topology.Host) string {
	sum := sha256.New()
	for _, name := range []string{"sys_vendor", "product_name", "product_version", "board_name", "bios_version",
		"bios_date"} {
		fmt.Fprintf(sum, "%s=%s\n", name, leaf(fsys, "sys/class/dmi/id/"+name))
	}
	fmt.Fprintf(sum, "cpu=%s\nmicrocode=%s\nkernel=%s\ncmdline=%v\n", topology.CPUModel(fsys), microcode(fsys, h),
		leaf(fsys, "proc/sys/kernel/osrelease"), Cmdline(fsys))
	fmt.Fprintf(sum, "online=%s\n", h.Online)
	for _, n := range h.Nodes {
		fmt.Fprintf(sum, "node%d cpus=%s mem=%s\n", n.ID, n.CPUs, installed(fsys, n))
	}
	fmt.Fprintf(sum, "slit=%v\n", rawSLIT(fsys, h))
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)[:16])
}

// installed is the memory of a node as its memory blocks say (nodeN/memoryM,
// drivers/base/memory.c). MemTotal, the fallback, grows while pages are set up
// late and shrinks under a balloon; it goes in steps of 64 MiB because the
// kernel's own share moves a little from boot to boot.
func installed(fsys fs.FS, n topology.Node) string {
	entries, _ := fs.ReadDir(fsys, fmt.Sprintf("sys/devices/system/node/node%d", n.ID))
	blocks := 0
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), "memory"); ok {
			if _, err := strconv.ParseUint(id, 10, 32); err == nil {
				blocks++
			}
		}
	}
	if blocks > 0 {
		return fmt.Sprintf("%d blocks of 0x%s", blocks, leaf(fsys, "sys/devices/system/memory/block_size_bytes"))
	}
	return fmt.Sprint(n.Memory / (64 << 10))
}

func microcode(fsys fs.FS, h *topology.Host) string {
	if v := leaf(fsys, fmt.Sprintf("sys/devices/system/cpu/cpu%d/microcode/version", h.Online.Min())); v != "" {
		return v
	}
	for line := range strings.Lines(leaf(fsys, "proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "microcode" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
