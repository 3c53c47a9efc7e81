package topology

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	cpuDir  = "sys/devices/system/cpu"
	nodeDir = "sys/devices/system/node"
)

// FromSysfs reads one machine from a root that holds sys/ and proc/: the live
// "/", or a tree that `homenode gather` captured. docs/design/topology.md says which
// file gives which fact.
//
// An error means that the CPUs or the nodes cannot be told. Anything less than
// that, such as a broken SLIT, becomes a Note and the fact unknown.
func FromSysfs(fsys fs.FS) (*Host, error) {
	t := &tree{fsys: fsys}
	h := &Host{CPU: CPUModel(fsys)}
	if err := readCPUs(t, h); err != nil {
		return nil, err
	}
	if err := readNodes(t, h); err != nil {
		return nil, err
	}
	if err := readCores(t, h); err != nil {
		return nil, err
	}
	readLLCs(t, h)
	readCapacity(t, h)
	h.Distances = readDistances(t, h.Nodes)
	h.HMAT, h.HMATBandwidth = readHMAT(t, h.Nodes)
	h.Tiering = t.readTiering()
	readAllowed(t, h)
	readDevices(t, h)
	readMemoryTypes(t, h)
	SettleTypes(h)
	h.Notes = t.notes
	return h, nil
}

// CPUModel is the model name of /proc/cpuinfo (arch/x86/kernel/cpu/proc.c); arm64 has
// numbers only. The first CPU's are enough: the kernel writes no more of the file than
// is read.
func CPUModel(fsys fs.FS) string {
	f, err := fsys.Open("proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 4096))
	var implementer, part string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "model name":
			return value
		case "CPU implementer":
			implementer = value
		case "CPU part":
			part = value
		}
		if implementer != "" && part != "" {
			return "implementer " + implementer + " part " + part
		}
	}
	return ""
}

// readCPUs finds which CPUs there are and which of them run: "online" and
// "present" (drivers/base/cpu.c), or on kernels before 2.6.29 the folders
// themselves. "possible" is not used: it counts slots that nothing is plugged in.
func readCPUs(t *tree, h *Host) error {
	online, haveOnline, err := setFile[CPUID](t, cpuDir+"/online")
	if err != nil {
		return err
	}
	present, havePresent, err := setFile[CPUID](t, cpuDir+"/present")
	if err != nil {
		return err
	}
	if !haveOnline || !havePresent {
		folders, err := numbered[CPUID](t, cpuDir, "cpu")
		if err != nil {
			return err
		}
		if !havePresent {
			present = folders
		}
		if !haveOnline {
			for cpu := range folders.All() {
				// The boot CPU of most kernels has no such file: it cannot be put offline.
				text, ok, err := t.read(cpuPath(cpu, "online"))
				if err != nil {
					return err
				}
				if !ok || text != "0" {
					online.Add(cpu)
				}
			}
		}
	}
	if online.Empty() {
		return fmt.Errorf("read %s: no CPU found; want sys/ and proc/ of a Linux machine, mounted or as gather "+
			"wrote them", cpuDir)
	}
	h.Online, h.Offline = online, present.Minus(online)
	return nil
}

func cpuPath(cpu CPUID, leaf string) string {
	return cpuDir + "/cpu" + strconv.Itoa(int(cpu)) + "/" + leaf
}

func nodePath(id NodeID, leaf string) string {
	return nodeDir + "/node" + strconv.Itoa(int(id)) + "/" + leaf
}

func nodeName(id NodeID) string { return "node" + strconv.Itoa(int(id)) }

// readNodes reads node/online and each nodeN (drivers/base/node.c).
func readNodes(t *tree, h *Host) error {
	ids, ok, err := setFile[NodeID](t, nodeDir+"/online")
	if err != nil {
		return err
	}
	if !ok {
		if ids, err = numbered[NodeID](t, nodeDir, "node"); err != nil {
			return err
		}
	}
	for id := range ids.All() {
		n, there, err := readNode(t, id)
		if err != nil {
			return err
		}
		if !there {
			t.note(nodeName(id), "%s/online names it, but it has no folder there; it is left out", nodeDir)
			continue
		}
		n.CPUs = n.CPUs.Intersect(h.Online)
		h.Nodes = append(h.Nodes, n)
	}
	if len(h.Nodes) == 0 {
		return readWithoutNodes(t, h)
	}
	settleClaims(t, h)
	placed := CPUSet{}
	for i := range h.Nodes {
		h.Nodes[i].Kind = kindOf(h.Nodes[i])
		placed = placed.Union(h.Nodes[i].CPUs)
	}
	if lost := h.Online.Minus(placed); !lost.Empty() {
		t.note("cpus", "CPUs %s run but are on no online node", lost)
	}
	return noteLostMemory(t, h)
}

// noteLostMemory compares the nodes' memory with the machine's: kernels that
// set pages up late (deferred_grow_zone, mm/page_alloc.c) count them to no node
// until they are wanted.
func noteLostMemory(t *tree, h *Host) error {
	var whole Node
	if ok, err := t.memory(&whole, "proc/meminfo"); err != nil || !ok || whole.Memory == None {
		return err
	}
	var sum KiB
	for _, n := range h.Nodes {
		if n.Memory == None {
			return nil
		}
		sum += n.Memory
	}
	if sum < whole.Memory-whole.Memory/10 {
		t.note("memory", "the nodes show %.1f GiB, /proc/meminfo %.1f GiB: the rest is on no node, or not set up yet",
			float64(sum)/(1<<20), float64(whole.Memory)/(1<<20))
	}
	return nil
}

func readNode(t *tree, id NodeID) (n Node, there bool, err error) {
	n = Node{ID: id, Package: None}
	var haveCPUs bool
	// nodeN/cpulist is missing before 2.6.30.
	if n.CPUs, haveCPUs, err = t.cpuSet(nodeDir+"/"+nodeName(id), "cpulist", "cpumap"); err != nil {
		return n, false, fmt.Errorf("read %s CPUs: %w", nodeName(id), err)
	}
	haveMemory, err := t.memory(&n, nodePath(id, "meminfo"))
	if err != nil {
		return n, false, fmt.Errorf("read %s memory: %w", nodeName(id), err)
	}
	n.HugePages = t.hugePages(nodeName(id), nodePath(id, "hugepages"))
	return n, haveCPUs || haveMemory, nil
}

// readWithoutNodes makes the one node of a kernel built without CONFIG_NUMA.
func readWithoutNodes(t *tree, h *Host) error {
	n := Node{ID: 0, Package: None, CPUs: h.Online.Clone()}
	if _, err := t.memory(&n, "proc/meminfo"); err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	n.HugePages = t.hugePages("node0", "sys/kernel/mm/hugepages")
	n.Kind = kindOf(n)
	h.Nodes = []Node{n}
	t.note("node0", "the kernel shows no NUMA nodes (no %s); all CPUs and memory are taken as one node", nodeDir)
	return nil
}

func kindOf(n Node) MemoryKind {
	switch {
	case n.Memory == 0:
		return NoMem
	case n.CPUs.Empty():
		return Special
	}
	return DRAM
}

// settleClaims leaves each CPU on one node. Under numa=fake all fake nodes of a
// real one list its CPUs (mm/numa_emulation.c, numa_add_cpu), while each CPU's
// own folder links to the one node the scheduler counts it to.
func settleClaims(t *tree, h *Host) {
	claimed, twice := CPUSet{}, CPUSet{}
	for _, n := range h.Nodes {
		twice = twice.Union(claimed.Intersect(n.CPUs))
		claimed = claimed.Union(n.CPUs)
	}
	if twice.Empty() {
		return
	}
	for cpu := range twice.All() {
		owner := -1
		for i, n := range h.Nodes {
			if !n.CPUs.Has(cpu) {
				continue
			}
			if owner < 0 {
				owner = i
			}
			if _, err := fs.Stat(t.fsys, cpuPath(cpu, nodeName(n.ID))); err == nil {
				owner = i
				break
			}
		}
		for i := range h.Nodes {
			if i != owner {
				h.Nodes[i].CPUs.Remove(cpu)
			}
		}
	}
	t.note("cpus", "several nodes list CPUs %s (numa=fake, or a kernel bug); each is kept on one node", twice)
}

// memory reads MemTotal, MemFree and what can be reclaimed from nodeN/meminfo
// ("Node 0 MemTotal: 1 kB", drivers/base/node.c) or /proc/meminfo.
func (t *tree) memory(n *Node, file string) (ok bool, err error) {
	n.Memory = None
	n.Free = None
	n.Reclaimable = None
	text, ok, err := t.read(file)
	if err != nil || !ok {
		return false, err
	}
	values := map[string]KiB{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == "Node" {
			fields = fields[2:]
		}
		if len(fields) < 2 {
			continue
		}
		key := strings.TrimSuffix(fields[0], ":")
		switch key {
		case "MemTotal", "MemFree", "FilePages", "Cached", "Buffers", "Shmem", "SReclaimable":
			v, err := strconv.ParseUint(fields[1], 10, 52)
			if err != nil {
				return false, fmt.Errorf("%s: %s is %q, want a number of KiB", file, key, clip(fields[1]))
			}
			values[key] = KiB(v)
		}
	}
	var have bool
	if n.Memory, have = values["MemTotal"]; !have {
		n.Memory = None
	}
	if n.Free, have = values["MemFree"]; !have {
		n.Free = None
	}
	if n.Memory != None {
		n.Free = min(n.Free, n.Memory)
	}
	// A node's FilePages is what /proc/meminfo splits into Cached and Buffers.
	files, have := values["FilePages"]
	if !have {
		files, have = values["Cached"]
		files += values["Buffers"]
	}
	if have {
		n.Reclaimable = max(0, files-values["Shmem"]) + values["SReclaimable"]
	}
	return true, nil
}

// hugePages reads the pools under a hugepages folder (mm/hugetlb_sysfs.c).
func (t *tree) hugePages(subject, dir string) []HugePool {
	names, err := t.names(dir)
	if err != nil {
		t.note(subject, "%s cannot be read: %v", dir, rootCause(err))
	}
	var pools []HugePool
	for _, name := range names {
		size, ok := strings.CutPrefix(name, "hugepages-")
		if !ok {
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(size, "kB"), 10, 40)
		if err != nil || kib == 0 {
			t.note(subject, "%s/%s does not name a page size; it is left out", dir, clip(name))
			continue
		}
		total, haveTotal := t.count(subject, dir+"/"+name+"/nr_hugepages")
		free, haveFree := t.count(subject, dir+"/"+name+"/free_hugepages")
		if !haveTotal {
			continue
		}
		if !haveFree {
			free = None
		}
		// The two are read one after the other, while pages come and go.
		pools = append(pools, HugePool{Size: KiB(kib), Total: total, Free: min(free, total)})
	}
	slices.SortFunc(pools, func(a, b HugePool) int { return int(a.Size - b.Size) })
	return pools
}

func (t *tree) count(subject, file string) (int64, bool) {
	text, ok := t.optional(subject, file)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 52)
	if err != nil {
		t.note(subject, "%s is %q, want a number", file, clip(text))
		return 0, false
	}
	return int64(n), true
}

// readCores groups CPUs by their SMT siblings and by package. core_id is not
// used: it repeats across packages, dies and, on old ARM kernels, clusters.
func readCores(t *tree, h *Host) error {
	names := []string{"core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings"}
	packages := map[PackageID]CPUSet{}
	seen := CPUSet{}
	bare := CPUSet{}
	spread := CPUSet{}
	unknown := 0
	for cpu := range h.Online.All() {
		if seen.Has(cpu) {
			continue
		}
		siblings, ok, err := t.cpuSetWith(cpu, cpuDir+"/cpu"+strconv.Itoa(int(cpu))+"/topology", names...)
		if err != nil {
			return fmt.Errorf("read cpu%d SMT siblings: %w", cpu, err)
		}
		if !ok {
			bare.Add(cpu)
		}
		siblings = siblings.Intersect(h.Online).Minus(seen)
		siblings.Add(cpu)
		seen = seen.Union(siblings)
		core := Core{CPUs: siblings, Node: h.NodeOf(cpu), Package: None, Capacity: None}
		if i := h.Index(core.Node); i >= 0 && !siblings.SubsetOf(h.Nodes[i].CPUs) {
			spread = spread.Union(siblings)
		}
		if text, ok := t.optional("cpu"+strconv.Itoa(int(cpu)), cpuPath(cpu, "topology/physical_package_id")); ok {
			id, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return fmt.Errorf("read cpu%d package: physical_package_id is %q, want a number", cpu, clip(text))
			}
			// -1 and, as unsigned, 65535 and up: the firmware does not say.
			if id >= 0 && id != 0xffff {
				core.Package = PackageID(id)
			}
		}
		if core.Package == None {
			unknown++
		} else {
			packages[core.Package] = packages[core.Package].Union(siblings)
		}
		h.Cores = append(h.Cores, core)
	}
	for _, id := range slices.Sorted(maps.Keys(packages)) {
		h.Packages = append(h.Packages, Package{id, packages[id]})
	}
	if !bare.Empty() {
		t.note("cores", "the kernel does not show the SMT siblings of CPUs %s; each counts as a core", bare)
	}
	if !spread.Empty() {
		t.note("cores",
			"CPUs %s are SMT siblings on different nodes; their core is counted to the node of its lowest CPU", spread)
	}
	if unknown > 0 {
		t.note("packages", "the kernel does not show the package of %s", plural(unknown, "core"))
	}
	setNodePackages(h)
	return nil
}

// setNodePackages gives each node the package that all its CPUs are in.
func setNodePackages(h *Host) {
	for i := range h.Nodes {
		n := &h.Nodes[i]
		n.Package = None
		for _, p := range h.Packages {
			if !n.CPUs.Empty() && n.CPUs.SubsetOf(p.CPUs) {
				n.Package = p.ID
			}
		}
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// readLLCs finds for each CPU the highest level of unified cache, or of data
// cache where no unified one exists (drivers/base/cacheinfo.c).
func readLLCs(t *tree, h *Host) {
	seen := CPUSet{}
	for cpu := range h.Online.All() {
		if seen.Has(cpu) {
			continue
		}
		llc, ok := t.llc(cpu)
		if !ok {
			continue
		}
		llc.CPUs = llc.CPUs.Intersect(h.Online).Minus(seen)
		llc.CPUs.Add(cpu)
		seen = seen.Union(llc.CPUs)
		h.LLCs = append(h.LLCs, llc)
	}
	h.NumberLLCs()
	if none := h.Online.Minus(seen); !none.Empty() {
		t.note("llcs", "the kernel shows no cache of CPUs %s", none)
	}
}

// maxCaches is more cache folders than any CPU has (4 to 5 today), maxLevel more levels.
const (
	maxCaches = 16
	maxLevel  = 9
)

func (t *tree) llc(cpu CPUID) (best LLC, ok bool) {
	subject := "cpu" + strconv.Itoa(int(cpu))
	bestDir, bestUnified := "", false
	for i := range maxCaches {
		dir := cpuPath(cpu, "cache/index"+strconv.Itoa(i))
		text, there := t.optional(subject, dir+"/level")
		if !there {
			break
		}
		level, err := strconv.ParseUint(text, 10, 8)
		if err != nil || level == 0 || level > maxLevel {
			t.note(subject, "%s/level is %q, want 1 to %d; the cache is left out", dir, clip(text), maxLevel)
			continue
		}
		kind, _ := t.optional(subject, dir+"/type")
		if kind == "Instruction" {
			continue
		}
		unified := kind != "Data"
		if bestDir == "" || (unified && !bestUnified) || (unified == bestUnified && int(level) > best.Level) {
			best = LLC{ID: None, Level: int(level), Size: None}
			bestDir = dir
			bestUnified = unified
		}
	}
	if bestDir == "" {
		return LLC{}, false
	}
	shared, there, err := t.cpuSetWith(cpu, bestDir, "shared_cpu_list", "shared_cpu_map")
	if err != nil || !there {
		t.note(subject, "%s does not name the CPUs that share it; the cache is left out", bestDir)
		return LLC{}, false
	}
	best.CPUs = shared
	if text, ok := t.optional(subject, bestDir+"/size"); ok {
		best.Size = parseCacheSize(text)
	}
	// On arm64 the number may be an address of the firmware.
	if text, ok := t.optional(subject, bestDir+"/id"); ok {
		if id, err := parseID(text); err == nil {
			best.ID = CacheID(id)
		}
	}
	return best, true
}

// readCapacity tells fast cores from slow ones. The kernel's own cpu_capacity
// comes first (drivers/base/arch_topology.c, and x86 from 6.12 on). Without it
// a host counts as hybrid when it has both core PMUs or when the clocks of its
// first and last core differ by a tenth; then ACPI CPPC's highest performance
// or the highest clock stand for speed.
func readCapacity(t *tree, h *Host) {
	first, last := h.Cores[0].CPUs.Min(), h.Cores[len(h.Cores)-1].CPUs.Min()
	const clock, cppc = "cpufreq/cpuinfo_max_freq", "acpi_cppc/highest_perf"
	if speeds := t.speeds(h, "cpu_capacity", first); speeds != nil {
		setCapacity(h, speeds)
		return
	}
	_, errCore := fs.Stat(t.fsys, "sys/devices/cpu_core")
	_, errAtom := fs.Stat(t.fsys, "sys/devices/cpu_atom")
	if errCore != nil || errAtom != nil {
		a, _ := t.speed(first, clock)
		b, ok := t.speed(last, clock)
		if a, b = min(a, b), max(a, b); !ok || a == 0 || b-a <= b/10 {
			return
		}
	}
	speeds := t.speeds(h, cppc, first)
	if speeds == nil {
		speeds = t.speeds(h, clock, first)
	}
	setCapacity(h, level(speeds))
}

// level lifts each speed to the highest one within a tenth of it: differences
// below that are favoured cores of one kind (Intel Turbo Boost Max, AMD
// preferred cores), and no reason to treat cores differently.
func level(speeds []int64) []int64 {
	order := slices.Clone(speeds)
	slices.Sort(order)
	slices.Reverse(order)
	out := slices.Clone(speeds)
	top := int64(0)
	for _, s := range order {
		if top-s > top/10 || top == 0 {
			top = s
		}
		for i := range out {
			if speeds[i] == s {
				out[i] = top
			}
		}
	}
	return out
}

func setCapacity(h *Host, speeds []int64) {
	if len(speeds) == 0 {
		return
	}
	top := slices.Max(speeds)
	for i := range h.Cores {
		h.Cores[i].Capacity = max(1, int((speeds[i]*1024+top/2)/top))
	}
}

// speeds reads one leaf of every core; nil unless all have it.
func (t *tree) speeds(h *Host, leaf string, first CPUID) []int64 {
	if _, ok := t.speed(first, leaf); !ok {
		return nil
	}
	speeds := make([]int64, len(h.Cores))
	for i, c := range h.Cores {
		var ok bool
		if speeds[i], ok = t.speed(c.CPUs.Min(), leaf); !ok {
			return nil
		}
	}
	return speeds
}

func (t *tree) speed(cpu CPUID, leaf string) (int64, bool) {
	text, ok := t.optional("cpu"+strconv.Itoa(int(cpu)), cpuPath(cpu, leaf))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 40)
	return int64(n), err == nil && n > 0
}
