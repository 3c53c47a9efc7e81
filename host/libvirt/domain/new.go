package domain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Machine is what a host can run.
type Machine struct {
	Arch     string // x86_64 or aarch64, as libvirt writes them
	Emulated bool   // without KVM: for tests
}

// New is the document of a new guest at its home.
func New(h *topology.Host, o *guest.Order, home guest.Home, m Machine) (*Document, error) {
	root := etree.NewElement("domain")
	root.CreateAttr("type", map[bool]string{false: "kvm", true: "qemu"}[m.Emulated])
	text := func(tag, value string, attrs ...string) {
		el := element(root, tag, attrs...)
		el.SetText(value)
	}
	text("name", o.Name)
	if o.UUID != "" {
		text("uuid", o.UUID)
	}
	memory := strconv.FormatInt(int64(home.Memory()), 10)
	text("memory", memory, "unit", "KiB")
	text("currentMemory", memory, "unit", "KiB")
	text("vcpu", strconv.Itoa(o.Flavor.VCPUs), "placement", "static")
	if o.Flavor.IOThreads > 0 {
		text("iothreads", strconv.Itoa(o.Flavor.IOThreads))
	}
	if err := system(root, m, o.CPU); err != nil {
		return nil, err
	}
	if home.Placement.Class == workload.Shared {
		element(element(root, "cputune"),
			"shares").SetText(strconv.Itoa(weight(o.Flavor.VCPUs, home.Placement.Importance)))
	}
	devices(root, o, &home)
	doc := etree.NewDocumentWithRoot(root)
	doc.WriteSettings = etree.WriteSettings{AttrSingleQuote: true}
	doc.IndentWithSettings(&etree.IndentSettings{Spaces: 2})
	bytes, err := doc.WriteToBytes()
	if err != nil {
		return nil, err
	}
	d, err := Parse(bytes)
	if err != nil {
		return nil, err
	}
	asked := home.Composed
	d.shape(h, &home, asked, m)
	d.realtime(o.Flavor.Realtime)
	mark := Mark{Flavor: o.Flavor.Name, Tier: o.Flavor.Tier, SMT: o.Flavor.SMT, Emulator: o.Flavor.Emulator}
	mark.Only = o.OnlyNodes().String()
	mark.Exact = o.ExactNodes()
	mark.Near = workload.NearText(o.WishesNear())
	mark.SLO = o.Flavor.SLO
	if asked != nil {
		mark.Composed, mark.Own = true, asked.Own.String()
	}
	d.Place(h, home, mark)
	return Parse(d.Bytes())
}

// mostWeight is the highest cpu.weight of cgroup v2 (Documentation/admin-guide/cgroup-v2.rst).
const mostWeight = 10_000

// weight is the CPU weight of a shared guest: 100, the kernel's default, for
// each vCPU of a guest of default importance. libvirt hands <shares> to cgroup
// v2's cpu.weight as it is; on v1 only the ratios count.
func weight(vcpus, importance int) int {
	return min(mostWeight, max(2, 100*vcpus*importance/workload.DefaultImportance))
}

// element adds a child with attributes, given as name and value in turn.
func element(parent *etree.Element, tag string, attrs ...string) *etree.Element {
	el := parent.CreateElement(tag)
	for i := 0; i+1 < len(attrs); i += 2 {
		el.CreateAttr(attrs[i], attrs[i+1])
	}
	return el
}

// system is the machine as the guest's firmware and kernel see it. Timers are
// those that libvirt's own tools set for Linux and Windows alike: missed ticks of
// the RTC are caught up, of the PIT delayed, and no HPET.
func system(root *etree.Element, m Machine, model string) error {
	machine := map[string]string{"x86_64": "q35", "aarch64": "virt"}[m.Arch]
	if machine == "" {
		return fmt.Errorf("architecture %q; want x86_64 or aarch64", m.Arch)
	}
	os := element(root, "os")
	if m.Arch == "aarch64" {
		os.CreateAttr("firmware", "efi") // there is no other on this machine
	}
	element(os, "type", "arch", m.Arch, "machine", machine).SetText("hvm")
	element(os, "boot", "dev", "hd")
	features := element(root, "features")
	element(features, "acpi")
	if m.Arch == "x86_64" {
		element(features, "apic")
	}
	cpu := element(root, "cpu", "mode", "host-passthrough")
	switch {
	case model == "host-model" || model == "maximum":
		cpu.CreateAttr("mode", model)
	case model != "":
		cpu.CreateAttr("mode", "custom")
		cpu.CreateAttr("match", "exact")
		element(cpu, "model", "fallback", "forbid").SetText(model)
	case m.Emulated:
		cpu.CreateAttr("mode", "maximum")
	case m.Arch == "x86_64":
		element(cpu, "cache", "mode", "passthrough")
	}
	clock := element(root, "clock", "offset", "utc")
	if m.Arch == "x86_64" {
		element(clock, "timer", "name", "rtc", "tickpolicy", "catchup")
		element(clock, "timer", "name", "pit", "tickpolicy", "delay")
		element(clock, "timer", "name", "hpet", "present", "no")
	}
	return nil
}

func devices(root *etree.Element, o *guest.Order, home *guest.Home) {
	devices := element(root, "devices")
	for i := range o.Disks {
		disk(devices, o, i)
	}
	for i := range o.NICs {
		nic(devices, o, &o.NICs[i])
	}
	for _, drive := range home.NVMe {
		source := element(element(devices, "hostdev", "mode", "subsystem", "type", "pci", "managed", "yes"), "source")
		address(source, drive.PCI)
	}
	element(devices, "console", "type", "pty")
	if o.Graphics != "" {
		// On the host's own address alone; a password is the operator's to set.
		element(devices, "graphics", "type", o.Graphics, "autoport", "yes", "listen", "127.0.0.1")
		element(element(devices, "video"), "model", "type", "virtio")
		element(devices, "input", "type", "tablet", "bus", "usb")
	}
	agent := element(devices, "channel", "type", "unix")
	element(agent, "target", "type", "virtio", "name", "org.qemu.guest_agent.0")
	if home.Placement.Bound {
		element(devices, "memballoon", "model", "none") // its memory is its own
	} else {
		element(devices, "memballoon", "model", "virtio")
	}
	rng := element(devices, "rng", "model", "virtio")
	element(rng, "backend", "model", "random").SetText("/dev/urandom")
}

func disk(devices *etree.Element, o *guest.Order, i int) {
	d := &o.Disks[i]
	kind, attr := "file", "file"
	if d.Block() {
		kind, attr = "block", "dev"
	}
	el := element(devices, "disk", "type", kind, "device", "disk")
	driver := element(el, "driver", "name", "qemu", "type", d.Format, "cache", "none", "io", "native", "discard",
		"unmap")
	if n := o.Flavor.IOThreads; n > 0 {
		driver.CreateAttr("iothread", strconv.Itoa(i%n+1))
	}
	element(el, "source", attr, d.Source)
	element(el, "target", "dev", "vd"+letters(i), "bus", "virtio")
	iops, rate := o.Flavor.Disk.For(d.Size)
	if iops > 0 || rate > 0 {
		tune := element(el, "iotune")
		if rate > 0 {
			element(tune, "total_bytes_sec").SetText(strconv.FormatInt(int64(rate)*1024, 10))
		}
		if iops > 0 {
			element(tune, "total_iops_sec").SetText(strconv.FormatInt(iops, 10))
		}
		for _, p := range o.Flavor.Disk.Bursts() {
			element(tune, p.Name).SetText(strconv.FormatInt(p.Value, 10))
		}
	}
}

// letters counts a, b, … z, aa, as disks are named.
func letters(i int) string {
	s := string(rune('a' + i%26))
	if i >= 26 {
		return letters(i/26-1) + s
	}
	return s
}

func nic(devices *etree.Element, o *guest.Order, n *guest.NIC) {
	el := element(devices, "interface", "type", string(n.Kind))
	if n.MAC != "" {
		element(el, "mac", "address", n.MAC)
	}
	source := element(el, "source")
	if n.Kind == guest.Direct {
		source.CreateAttr("dev", n.Source)
		source.CreateAttr("mode", "bridge")
	} else {
		source.CreateAttr(string(n.Kind), n.Source)
	}
	element(el, "model", "type", "virtio")
	if o.Flavor.Queues > 1 {
		element(el, "driver", "name", "vhost", "queues", strconv.Itoa(o.Flavor.Queues))
	}
	if o.Flavor.Network > 0 {
		// In KiB a second; libvirt's word for it is kilobytes.
		bandwidth := element(el, "bandwidth")
		limit := strconv.FormatInt(int64(o.Flavor.Network), 10)
		for _, way := range []string{"inbound", "outbound"} {
			el := element(bandwidth, way, "average", limit)
			if n := o.Flavor.NetworkBurst.Peak; n > 0 {
				el.CreateAttr("peak", strconv.FormatInt(int64(n), 10))
			}
			if n := o.Flavor.NetworkBurst.Size; n > 0 {
				el.CreateAttr("burst", strconv.FormatInt(int64(n), 10))
			}
		}
	}
}

// address writes a PCI address, "0000:3b:00.0".
func address(source *etree.Element, pci string) {
	part := strings.FieldsFunc(pci, func(r rune) bool { return r == ':' || r == '.' })
	if len(part) == 4 {
		element(source, "address", "domain", "0x"+part[0], "bus", "0x"+part[1], "slot", "0x"+part[2], "function",
			"0x"+part[3])
	}
}

// realtime runs vCPUs under SCHED_FIFO, locks the memory and takes the performance counters
// away, whose interrupts cost time (as Nova does for hw:cpu_realtime).
func (d *Document) realtime(vcpus guest.VCPUs) {
	if vcpus.Empty() {
		return
	}
	element(d.child(d.tree.Root(), "cputune"), "vcpusched", "vcpus", vcpus.String(), "scheduler", "fifo", "priority",
		"1")
	d.child(d.tree.Root(), "memoryBacking").CreateElement("locked")
	element(d.child(d.tree.Root(), "features"), "pmu", "state", "off")
}
