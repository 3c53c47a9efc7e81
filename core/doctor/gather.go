package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/topology/acpi"
)

// Gather reads all facts that need no measurement. fsys is the root of the
// machine or of a captured tree.
func Gather(fsys fs.FS, h *topology.Host) *measure.Document {
	d := measure.NewDocument(fsys, h)
	d.Firmware = Firmware(fsys)
	d.Settings = gatherSettings(fsys, h)
	gatherDIMMs(fsys, h, d)
	gatherEDAC(fsys, h, d)
	return d
}

const tables = "sys/firmware/acpi/tables/"

// Firmware reads the ACPI tables; nil when they cannot be read (not root, or
// no ACPI). A folder that is readable and lacks the SRAT is a fact.
func Firmware(fsys fs.FS) *measure.Firmware {
	entries, err := fs.ReadDir(fsys, path.Clean(tables))
	if err != nil || len(entries) == 0 {
		return nil
	}
	data, err := fs.ReadFile(fsys, tables+"SRAT")
	if err != nil {
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "SRAT" }) {
			return nil // there, and not for us
		}
		return &measure.Firmware{Domains: []int{}, Memory: []int{}}
	}
	srat, err := acpi.ParseSRAT(data)
	if err != nil {
		return nil
	}
	f := &measure.Firmware{SRAT: true, Domains: ints(srat.Domains()), Memory: ints(srat.MemoryDomains())}
	if data, err := fs.ReadFile(fsys, tables+"SLIT"); err == nil {
		if slit, err := acpi.ParseSLIT(data); err == nil {
			f.SLIT = byDomain(f.Domains, func(from, to int) float64 {
				if from < len(slit.Distances) && to < len(slit.Distances) {
					return float64(slit.Distances[from][to])
				}
				return math.NaN()
			})
		}
	}
	if data, err := fs.ReadFile(fsys, tables+"HMAT"); err == nil {
		if hmat, err := acpi.ParseHMAT(data); err == nil {
			read := func(latency bool) func(int, int) float64 {
				return func(from, to int) float64 { return hmat.Read(latency, acpi.Domain(from), acpi.Domain(to)) }
			}
			f.HMATLatency, f.HMATMBs = byDomain(f.Domains, read(true)), byDomain(f.Domains, read(false))
		}
	}
	return f
}

func ints(domains []acpi.Domain) []int {
	out := make([]int, len(domains))
	for i, d := range domains {
		out[i] = int(d)
	}
	return out
}

func byDomain(domains []int, value func(from, to int) float64) measure.Table {
	t := measure.NewTable(len(domains), len(domains))
	for i, from := range domains {
		for j, to := range domains {
			t[i][j] = measure.Value(value(from, to))
		}
	}
	return t
}

func text(fsys fs.FS, name string) (string, bool) {
	b, err := fs.ReadFile(fsys, name)
	return strings.Trim(string(b), " \t\r\n\x00"), err == nil
}

func number(fsys fs.FS, name string) *int {
	s, ok := text(fsys, name)
	if n, err := strconv.Atoi(s); ok && err == nil {
		return &n
	}
	return nil
}

func gatherSettings(fsys fs.FS, h *topology.Host) *measure.Settings {
	s := &measure.Settings{
		Balancing:   number(fsys, "proc/sys/kernel/numa_balancing"),
		ZoneReclaim: number(fsys, "proc/sys/vm/zone_reclaim_mode"),
		HugePages:   hugePools(h),
		Managers:    Managers(fsys, h),
		Queues:      queues(fsys, h),
		Counters:    counters(fsys),
		CgroupV1:    cgroupV1(fsys),
		NoHook:      noHook(fsys),
	}
	kernel := topology.ReadCacheAware(fsys)
	s.CacheAware = &kernel
	for i := range s.Managers {
		s.Managers[i].Guests = nil // a document must not name what runs here
	}
	if state, ok := text(fsys, schedExt+"state"); ok {
		s.SchedExt = "none"
		if name, ok := text(fsys, schedExt+"root/ops"); ok && state != "disabled" {
			s.SchedExt = name
		}
	}
	if t, ok := text(fsys, "sys/kernel/mm/transparent_hugepage/enabled"); ok {
		if _, rest, found := strings.Cut(t, "["); found {
			s.THP, _, _ = strings.Cut(rest, "]")
		}
	}
	return s
}

// schedExt is where the kernel tells of sched_ext (Documentation/scheduler/sched-ext.rst).
const schedExt = "sys/kernel/sched_ext/"

// cgroupV1 reports whether the hierarchy of cgroup v1 has the cpuset controller: each has a
// line ID:CONTROLLERS:PATH (cgroups(7)).
func cgroupV1(fsys fs.FS) bool {
	all, _ := text(fsys, "proc/self/cgroup")
	for line := range strings.Lines(all) {
		_, rest, _ := strings.Cut(line, ":")
		controllers, _, _ := strings.Cut(rest, ":")
		if slices.Contains(strings.Split(controllers, ","), "cpuset") {
			return true
		}
	}
	return false
}

// pmus is where the kernel lists what can count.
const pmus = "sys/bus/event_source/devices"

// counters looks what can tell where memory accesses go; nil when that is not told.
func counters(fsys fs.FS) *measure.Counters {
	entries, err := fs.ReadDir(fsys, pmus)
	if err != nil {
		return nil
	}
	c := &measure.Counters{PMUs: []string{}, Paranoid: number(fsys, "proc/sys/kernel/perf_event_paranoid")}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "cpu", name == "cpu_core", strings.HasPrefix(name, "armv8_"):
			c.PMUs = append(c.PMUs, name)
		case strings.HasPrefix(name, "uncore_imc"):
			if _, ok := text(fsys, pmus+"/"+name+"/events/cas_count_read"); ok {
				c.IMC++
			}
		}
	}
	if t, ok := text(fsys, "sys/fs/resctrl/info/L3_MON/mon_features"); ok {
		c.MBM = strings.Contains(t, "mbm_")
	}
	return c
}

func hugePools(h *topology.Host) []measure.HugePool {
	var sizes []int64
	for _, n := range h.Nodes {
		for _, p := range n.HugePages {
			sizes = append(sizes, int64(p.Size))
		}
	}
	slices.Sort(sizes)
	var out []measure.HugePool
	for _, size := range slices.Compact(sizes) {
		pool := measure.HugePool{SizeKiB: size}
		for _, n := range h.Nodes {
			var total, free int64
			for _, p := range n.HugePages {
				if int64(p.Size) == size {
					total, free = p.Total, max(0, p.Free)
				}
			}
			pool.Total, pool.Free = append(pool.Total, total), append(pool.Free, free)
		}
		out = append(out, pool)
	}
	return out
}

// queues looks where the interrupts of NICs and NVMe drives go: the effective
// target where the kernel tells it, else what is allowed.
func queues(fsys fs.FS, h *topology.Host) []measure.Queues {
	if len(h.Nodes) < 2 {
		return nil
	}
	var out []measure.Queues
	for _, dev := range h.Devices {
		if (dev.Kind != topology.NIC && dev.Kind != topology.NVMe) || dev.Node == topology.None {
			continue
		}
		at := h.Index(dev.Node)
		if at < 0 || h.Nodes[at].CPUs.Empty() {
			continue
		}
		q := measure.Queues{Device: dev.Name, Kind: string(dev.Kind), Node: int(dev.Node)}
		irqs, _ := fs.ReadDir(fsys, "sys/bus/pci/devices/"+dev.PCI+"/msi_irqs")
		for _, irq := range irqs {
			list, ok := text(fsys, "proc/irq/"+irq.Name()+"/effective_affinity_list")
			if !ok || list == "" {
				list, ok = text(fsys, "proc/irq/"+irq.Name()+"/smp_affinity_list")
			}
			cpus, err := topology.ParseCPUSet(list)
			if !ok || err != nil || cpus.Empty() {
				continue
			}
			q.Total++
			if !cpus.Intersects(h.Nodes[at].CPUs) {
				q.Away++
			}
		}
		if q.Total > 0 {
			out = append(out, q)
		}
	}
	return out
}

// Slot labels of SMBIOS are free text; these forms cover the common boards
// ("CPU1_DIMM_A1", "P0 CHANNEL A", "Proc 1 DIMM 3", "NODE 0"). Where a label
// does not fit, nothing is said about channels.
var (
	socketLabel  = regexp.MustCompile(`(?i)(?:cpu|proc|p|node|socket)[ _]?(\d)`)
	channelLabel = regexp.MustCompile(`(?i)(?:channel|chn?|dimm)[ _]?([a-p])`)
)

// gatherDIMMs counts memory channels per package from SMBIOS type 17 and gives
// them to nodes where each package is one node.
func gatherDIMMs(fsys fs.FS, h *topology.Host, d *measure.Document) {
	const dir = "sys/firmware/dmi/entries"
	entries, _ := fs.ReadDir(fsys, dir)
	type slots struct {
		all, full map[string]bool
		mts       int
	}
	bySocket := map[string]*slots{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "17-") {
			continue
		}
		raw, err := fs.ReadFile(fsys, dir+"/"+e.Name()+"/raw")
		dimm, ok := parseDIMM(raw)
		if err != nil || !ok {
			return
		}
		label := dimm.locator + " " + dimm.bank
		socket, channel := socketLabel.FindStringSubmatch(label), channelLabel.FindStringSubmatch(label)
		if socket == nil || channel == nil {
			return
		}
		s := bySocket[socket[1]]
		if s == nil {
			s = &slots{map[string]bool{}, map[string]bool{}, 0}
			bySocket[socket[1]] = s
		}
		name := strings.ToUpper(channel[1])
		s.all[name] = true
		if dimm.size > 0 {
			s.full[name] = true
			s.mts = max(s.mts, dimm.mts)
		}
	}
	withCPUs := 0
	for _, n := range h.Nodes {
		if !n.CPUs.Empty() {
			withCPUs++
		}
	}
	if len(bySocket) == 0 || len(bySocket) != len(h.Packages) || withCPUs != len(h.Packages) {
		return
	}
	names := []string{}
	for name := range bySocket {
		names = append(names, name)
	}
	slices.Sort(names) // labels count up as packages do, from 0 or from 1
	for i, n := range h.Nodes {
		at := slices.IndexFunc(h.Packages, func(p topology.Package) bool { return p.ID == n.Package })
		if at < 0 {
			continue
		}
		s := bySocket[names[at]]
		full, all := len(s.full), len(s.all)
		d.Nodes[i].Channels, d.Nodes[i].MaxChannel = &full, &all
		if s.mts > 0 {
			d.Nodes[i].ChannelMBs = measure.Value(s.mts * 8) // 64 data bits a transfer
		}
	}
}

var (
	edacController = regexp.MustCompile(`^mc(\d+)$`)
	edacChannel    = regexp.MustCompile(`channel (\d+)`)
)

// gatherEDAC counts filled channels by the kernel's memory controllers, which any
// user may read, where SMBIOS told nothing. Empty channels are not shown there.
// Controllers are numbered package by package (drivers/edac/skx_base.c,
// i10nm_base.c, amd64_edac.c).
func gatherEDAC(fsys fs.FS, h *topology.Host, d *measure.Document) {
	const dir = "sys/devices/system/edac/mc"
	var controllers []int
	entries, _ := fs.ReadDir(fsys, dir)
	for _, e := range entries {
		if m := edacController.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.Atoi(m[1])
			controllers = append(controllers, n)
		}
	}
	var nodes []int // positions of those with CPUs
	for i, n := range h.Nodes {
		if d.Nodes[i].Channels != nil {
			return
		}
		if !n.CPUs.Empty() {
			nodes = append(nodes, i)
		}
	}
	if len(controllers) == 0 || len(nodes) != len(h.Packages) || len(controllers)%len(nodes) != 0 {
		return
	}
	slices.Sort(controllers)
	each := len(controllers) / len(nodes)
	for k, at := range nodes {
		filled := map[string]bool{}
		for _, n := range controllers[k*each : (k+1)*each] {
			mc := fmt.Sprintf("%s/mc%d", dir, n)
			dimms, _ := fs.ReadDir(fsys, mc)
			for _, e := range dimms {
				place, _ := text(fsys, mc+"/"+e.Name()+"/dimm_location")
				size := number(fsys, mc+"/"+e.Name()+"/size")
				if c := edacChannel.FindStringSubmatch(place); c != nil && size != nil && *size > 0 {
					filled[fmt.Sprint(n, " ", c[1])] = true
				}
			}
		}
		if len(filled) > 0 {
			d.Nodes[at].Channels = new(len(filled))
		}
	}
}

type dimm struct {
	locator, bank string
	size          int // MiB, 0 empty
	mts           int // configured speed
}

// parseDIMM reads one SMBIOS type 17 structure (SMBIOS 3.7, 7.18) with its strings.
func parseDIMM(raw []byte) (dimm, bool) {
	if len(raw) < 0x15 || raw[0] != 17 || int(raw[1]) > len(raw) || raw[1] < 0x15 {
		return dimm{}, false
	}
	formatted := raw[:raw[1]]
	strs := strings.Split(string(raw[raw[1]:]), "\x00")
	str := func(at int) string {
		if i := int(formatted[at]); i >= 1 && i <= len(strs) {
			return strs[i-1]
		}
		return ""
	}
	u16 := func(at int) int {
		if at+2 > len(formatted) {
			return 0
		}
		return int(formatted[at]) | int(formatted[at+1])<<8
	}
	d := dimm{locator: str(0x10), bank: str(0x11), mts: u16(0x20)}
	d.mts = cmp.Or(d.mts, u16(0x15))
	switch size := u16(0x0c); {
	case size == 0 || size == 0xffff:
	case size == 0x7fff: // the extended field holds it; that it is there is enough
		d.size = 32 << 10
	default:
		d.size = size & 0x7fff
	}
	return d, true
}
