package topology

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"pgregory.net/rapid"
)

// fakeTree writes a host down the way a kernel of today shows it.
func fakeTree(h *Host) fstest.MapFS {
	m := fstest.MapFS{}
	put := func(name, format string, args ...any) {
		m[name] = &fstest.MapFile{Data: []byte(fmt.Sprintf(format, args...) + "\n")}
	}
	link := func(name, target string) {
		m[name] = &fstest.MapFile{Data: []byte(target), Mode: linkMode}
	}
	all := h.Online.Union(h.Offline)
	put(cpuDir+"/online", "%s", h.Online)
	put(cpuDir+"/present", "%s", all)
	put(cpuDir+"/possible", "0-%d", all.Max())
	put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t%s\nMems_allowed_list:\t%s", h.Allowed, h.AllowedMems)
	for _, c := range h.Cores {
		for cpu := range c.CPUs.All() {
			put(cpuPath(cpu, "topology/core_cpus_list"), "%s", c.CPUs)
			put(cpuPath(cpu, "topology/thread_siblings_list"), "%s", c.CPUs)
			put(cpuPath(cpu, "topology/core_id"), "0")
			put(cpuPath(cpu, "topology/physical_package_id"), "%d", c.Package)
			if c.Capacity != None {
				put(cpuPath(cpu, "cpu_capacity"), "%d", c.Capacity)
			}
			if c.Node != None {
				link(cpuPath(cpu, nodeName(c.Node)), "../../node/"+nodeName(c.Node))
			}
		}
	}
	for _, l := range h.LLCs {
		for cpu := range l.CPUs.All() {
			fakeCaches(put, cpu, l)
		}
	}
	ids := NodeSet{}
	for i, n := range h.Nodes {
		ids.Add(n.ID)
		put(nodePath(n.ID, "cpulist"), "%s", n.CPUs)
		if h.Distances != nil {
			put(nodePath(n.ID, "distance"), "%s", strings.Trim(fmt.Sprint(h.Distances[i]), "[]"))
		}
		if n.Memory != None {
			put(nodePath(n.ID, "meminfo"), "\nNode %[1]d MemTotal: %8[2]d kB\nNode %[1]d MemFree: %8[3]d kB\nNode %[1]d FilePages: %[4]d kB\nNode %[1]d Shmem: 0 kB\nNode %[1]d SReclaimable: 0 kB",
				n.ID, n.Memory, n.Free, n.Reclaimable)
		}
		for _, p := range n.HugePages {
			dir := fmt.Sprintf("hugepages/hugepages-%dkB/", p.Size)
			put(nodePath(n.ID, dir+"nr_hugepages"), "%d", p.Total)
			put(nodePath(n.ID, dir+"free_hugepages"), "%d", p.Free)
		}
	}
	put(nodeDir+"/online", "%s", ids)
	put("sys/kernel/mm/numa/demotion_enabled", "%v", h.Tiering.Demotion)
	put("proc/sys/kernel/numa_balancing", "%d", 1+2*btoi(h.Tiering.Promotion))
	for _, tier := range h.Tiering.Tiers {
		put(fmt.Sprintf("%s/memory_tier%d/nodelist", tierDir, tier.ID), "%s", tier.Nodes)
	}
	put(nodeDir+"/possible", "0-%d", ids.Max())
	for _, d := range h.Devices {
		fakeDevice(put, link, d)
	}
	return m
}

const linkMode = 0o777 | 1<<27 // fs.ModeSymlink

func fakeCaches(put func(string, string, ...any), cpu CPUID, l LLC) {
	index := func(i int, level int, kind string, shared CPUSet) string {
		dir := cpuPath(cpu, fmt.Sprintf("cache/index%d/", i))
		put(dir+"level", "%d", level)
		put(dir+"type", "%s", kind)
		put(dir+"shared_cpu_list", "%s", shared)
		return dir
	}
	index(0, 1, "Data", CPUs(cpu))
	index(1, 1, "Instruction", CPUs(cpu))
	dir := index(2, l.Level, "Unified", l.CPUs)
	put(dir+"id", "%d", l.ID)
	if l.Size != None {
		put(dir+"size", "%dK", l.Size)
	}
}

func fakeDevice(put func(string, string, ...any), link func(string, string), d Device) {
	home := path.Join("devices", d.Root, d.Bridges, d.PCI)
	link(pciDir+"/"+d.PCI, "../../../"+home)
	codes := map[DeviceKind]string{NIC: "0x020000", NVMe: "0x010802", Storage: "0x010601", GPU: "0x030200", Accel: "0x020700"}
	put("sys/"+home+"/class", "%s", codes[d.Kind])
	put("sys/"+home+"/numa_node", "%d", d.Node)
	class := map[DeviceKind]string{NIC: "net", NVMe: "block", Storage: "block", GPU: "drm", Accel: "infiniband"}[d.Kind]
	if d.Name != d.PCI {
		link("sys/class/"+class+"/"+d.Name, "../../"+home+"/"+class+"/"+d.Name)
	}
	if number, ok := strings.CutPrefix(d.Chars, "195:3 "); ok || d.Model == "" && d.Chars != "" {
		put("sys/"+home+"/"+class+"/"+d.Name+"/dev", "%s", cmp.Or(number, d.Chars))
	}
	if d.Model != "" {
		put("proc/driver/nvidia/gpus/"+d.PCI+"/information", "Model: \t\t %s\nGPU UUID: \t ???\nDevice Minor: \t 3", d.Model)
	}
}

// anyHost draws a host with gaps in all IDs, nodes without CPUs and without
// memory, SMT on some cores, CPUs offline, caches over several nodes or none.
func anyHost(t *rapid.T) *Host {
	free := rapid.Permutation(upTo(120)).Draw(t, "CPU IDs")
	take := func() CPUID { id := free[0]; free = free[1:]; return CPUID(id) }
	nodeIDs := rapid.Permutation(upTo(40)).Draw(t, "node IDs")
	h := &Host{}
	packages := rapid.IntRange(1, 3).Draw(t, "packages")
	wideCaches := rapid.Bool().Draw(t, "a cache for the package")
	noCaches := rapid.Bool().Draw(t, "no caches")
	capacity := rapid.SampledFrom([][]int{{None}, {1024, 600}}).Draw(t, "capacities")
	for p := range packages {
		pack := Package{ID: PackageID(p*3 + 1)}
		for range rapid.IntRange(1, 3).Draw(t, "nodes") {
			n := anyNode(t, NodeID(nodeIDs[0]))
			nodeIDs = nodeIDs[1:]
			for range rapid.IntRange(0, 3).Draw(t, "cores") {
				core := Core{Node: n.ID, Package: pack.ID, Capacity: capacity[len(h.Cores)%len(capacity)]}
				for range rapid.IntRange(1, 2).Draw(t, "threads") {
					core.CPUs.Add(take())
				}
				n.CPUs = n.CPUs.Union(core.CPUs)
				h.Cores = append(h.Cores, core)
			}
			if !n.CPUs.Empty() {
				n.Package = pack.ID
				if !wideCaches && !noCaches {
					h.LLCs = append(h.LLCs, LLC{CPUs: n.CPUs, Level: 3, Size: 4096})
				}
			}
			n.Kind = kindOf(n)
			pack.CPUs = pack.CPUs.Union(n.CPUs)
			h.Nodes = append(h.Nodes, n)
		}
		if !pack.CPUs.Empty() {
			h.Packages = append(h.Packages, pack)
			if wideCaches && !noCaches {
				h.LLCs = append(h.LLCs, LLC{CPUs: pack.CPUs, Level: 2, Size: None})
			}
		}
		h.Online = h.Online.Union(pack.CPUs)
	}
	if h.Online.Empty() {
		t.Skip("no CPU")
	}
	for range rapid.IntRange(0, 4).Draw(t, "offline") {
		h.Offline.Add(take())
	}
	slices.SortFunc(h.Nodes, func(a, b Node) int { return int(a.ID - b.ID) })
	slices.SortFunc(h.Cores, func(a, b Core) int { return int(a.CPUs.Min() - b.CPUs.Min()) })
	if rapid.Bool().Draw(t, "numbered caches") {
		for i := range h.LLCs {
			h.LLCs[i].ID = CacheID(free[i])
		}
	}
	h.NumberLLCs()
	h.Allowed = anySubset(t, h.Online)
	withMemory := NodeSet{}
	for _, n := range h.Nodes {
		if n.Memory > 0 {
			withMemory.Add(n.ID)
		}
	}
	h.AllowedMems = anySubset(t, withMemory)
	h.Distances = anyDistances(t, len(h.Nodes))
	h.Devices = anyDevices(t, h.Nodes)
	h.Tiering = anyTiering(t, h.Nodes)
	return h
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// anyTiering puts each node with memory into one of some tiers.
func anyTiering(t *rapid.T, nodes []Node) (out Tiering) {
	out.Demotion = rapid.Bool().Draw(t, "demotion")
	out.Promotion = rapid.Bool().Draw(t, "promotion")
	byID := map[int]NodeSet{}
	for _, n := range nodes {
		if n.Memory > 0 {
			id := rapid.SampledFrom([]int{2, 4, 22}).Draw(t, "tier")
			tier := byID[id]
			tier.Add(n.ID)
			byID[id] = tier
		}
	}
	if len(byID) < 2 && !out.Demotion && !out.Promotion {
		return out
	}
	for _, id := range []int{2, 4, 22} {
		if nodes := byID[id]; !nodes.Empty() {
			out.Tiers = append(out.Tiers, Tier{id, nodes})
		}
	}
	return out
}

func anyNode(t *rapid.T, id NodeID) Node {
	n := Node{ID: id, Package: None}
	if rapid.Bool().Draw(t, "has memory") {
		n.Memory = KiB(rapid.Int64Range(1, 1<<40).Draw(t, "memory"))
		n.Free = KiB(rapid.Int64Range(0, int64(n.Memory)).Draw(t, "free"))
		n.Reclaimable = KiB(rapid.Int64Range(0, int64(n.Memory-n.Free)).Draw(t, "reclaimable"))
		for _, size := range []KiB{64, 2048, 1 << 20}[:rapid.IntRange(0, 3).Draw(t, "pools")] {
			total := rapid.Int64Range(0, 1<<20).Draw(t, "pages")
			n.HugePages = append(n.HugePages, HugePool{size, total, rapid.Int64Range(0, total).Draw(t, "free pages")})
		}
	}
	return n
}

// anySubset is not empty unless s is.
func anySubset[T ~int](t *rapid.T, s Set[T]) Set[T] {
	out := Set[T]{}
	for id := range s.All() {
		if rapid.Bool().Draw(t, "in") {
			out.Add(id)
		}
	}
	if out.Empty() {
		return s.Clone()
	}
	return out
}

func anyDistances(t *rapid.T, n int) Matrix {
	if rapid.IntRange(0, 4).Draw(t, "no SLIT") == 0 {
		return nil
	}
	m := newMatrix(n)
	for i := range m {
		for j := range m {
			m[i][j] = localDistance
			if i != j {
				m[i][j] = rapid.IntRange(11, 255).Draw(t, "distance")
			}
		}
	}
	return m
}

func anyDevices(t *rapid.T, nodes []Node) []Device {
	var out []Device
	gpus := 0
	for i := range rapid.IntRange(0, 6).Draw(t, "devices") {
		kind := rapid.SampledFrom([]DeviceKind{NIC, NVMe, Storage, GPU, Accel}).Draw(t, "kind")
		name := fmt.Sprintf(map[DeviceKind]string{NIC: "eth%d", NVMe: "nvme%dn1", Storage: "sd%c", GPU: "card%d", Accel: "mlx5_%d"}[kind], i+'a'*btoi(kind == Storage))
		d := Device{Name: name, Kind: kind, PCI: fmt.Sprintf("0000:%02x:00.0", i), Root: "pci0000:00", Node: None}
		if at := rapid.IntRange(-1, len(nodes)-1).Draw(t, "node"); at >= 0 {
			d.Node = nodes[at].ID
		}
		d.Bridges = rapid.SampledFrom([]string{"", "0000:00:10.0", "0000:00:10.0/0000:f0:00.0/0000:f1:04.0"}).Draw(t, "bridges")
		if kind == GPU {
			d.GPU = fmt.Sprintf("gpu%d", gpus)
			d.Model = rapid.SampledFrom([]string{"", "NVIDIA H100 80GB HBM3"}).Draw(t, "model")
			gpus++
			d.Chars = rapid.SampledFrom([]string{"", fmt.Sprintf("226:%d", i)}).Draw(t, "chars")
			if d.Model != "" {
				d.Chars = strings.TrimSpace("195:3 " + d.Chars)
			}
		}
		out = append(out, d)
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
