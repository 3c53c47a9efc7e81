package topology

// IDs are types so that a CPU cannot be passed for a node. All are the
// kernel's numbers and may have gaps.
type (
	CPUID     int // logical CPU
	NodeID    int // NUMA node
	PackageID int // socket
)

// None marks an ID or a quantity that the source did not tell. Unknown is not zero.
const None = -1

// KiB is a memory size in units of 1,024 bytes, or None when unknown.
type KiB int64

// Host is one machine as facts: what is there, never what should be. It holds
// no pointers into the outside and is never changed after it is built.
type Host struct {
	CPU         string    // model as the kernel or hwloc tells it; "" unknown
	Nodes       []Node    // rising by ID; nodes may lack CPUs (CXL, HBM) or memory
	Packages    []Package // rising by ID
	Cores       []Core    // rising by lowest CPU; online CPUs only
	LLCs        []LLC     // rising by lowest CPU; CPUs sharing the last-level cache
	Online      CPUSet    // CPUs that run now
	Offline     CPUSet    // CPUs the kernel knows and does not run
	Allowed     CPUSet    // Online CPUs that this process may use; Online when not confined
	AllowedMems NodeSet   // nodes this process may take memory from; all with memory when not confined
	Distances   Matrix    // SLIT, rows and columns in the order of Nodes
	// the firmware's read latency in ns, from the row's CPUs to the column's memory; 0 unknown, nil without
	HMAT [][]float64
	// HMATBandwidth is the firmware's read bandwidth in MB/s, likewise; nil where HMAT is.
	HMATBandwidth [][]float64
	Tiering       Tiering   // the kernel's use of memory tiers
	Measured      *Measured // from `homenode probe`, nil when it never ran
	Devices       []Device  // PCI devices that matter for placing, by PCI address, then name
	Notes         []Note    // what is odd about the source, for people
}

// Node is one NUMA node.
type Node struct {
	ID      NodeID
	Package PackageID // None when CPU-less, unknown, or the node spans several packages
	CPUs    CPUSet    // online CPUs; empty for a memory-only node
	Memory  KiB       // MemTotal; 0 for a node without memory, None when unknown
	Free    KiB       // MemFree when the source was read; None when unknown
	// Reclaimable is file pages and slab that the kernel gives back under
	// pressure: FilePages − Shmem + SReclaimable. None when unknown.
	Reclaimable KiB
	HugePages   []HugePool // rising by size
	Kind        MemoryKind
	Type        MemoryType // of its memory, where it has no CPUs; "" unknown
	Evidence    []string   // how Type is known, strongest first
}

// MemoryKind tells ordinary memory from slower or special tiers.
type MemoryKind string

// Kinds of memory a node may hold.
const (
	DRAM    MemoryKind = "dram"    // ordinary, or not known to be anything else
	Special MemoryKind = "special" // CPU-less: CXL, HBM, PMEM, GPU memory
	NoMem   MemoryKind = "none"    // the node has no memory
)

// HugePool is the hugetlbfs pool of one page size on one node.
type HugePool struct {
	Size        KiB   // of one page
	Total, Free int64 // pages; Free is None when unknown
}

// Package is one socket.
type Package struct {
	ID   PackageID
	CPUs CPUSet
}

// Core is one physical core: its online SMT siblings.
type Core struct {
	CPUs     CPUSet
	Node     NodeID    // None when unknown
	Package  PackageID // None when unknown
	Capacity int       // relative speed, the fastest core 1024 (cpu_capacity or core type); None when unknown
}

// LLC is one last-level cache.
type LLC struct {
	ID    CacheID
	CPUs  CPUSet
	Nodes NodeSet // of its CPUs: several with sub-NUMA clusters
	Level int     // 2, 3 …
	Size  KiB     // None when unknown
}

// Device is a PCI device with a place: what a workload may want to be near.
type Device struct {
	Name string // kernel name: eth0, nvme0n1, card0
	Kind DeviceKind
	PCI  string // domain:bus:device.function
	Node NodeID // None when the firmware does not say
	Root string // PCI root, "pci0000:3a"; "" when unknown
	// Bridges is the PCI bridges between Root and the device, from the root on: "0000:3a:00.0/0000:3b:00.0";
	// "" directly below the root, and when unknown.
	Bridges string
	GPU     string // of a GPU or accelerator that work can run on: gpu0, by PCI address; else ""
	Model   string // of a GPU, as its driver writes it, else its PCI IDs; "" unknown
	UUID    string // of a GPU; "" unknown
	// Chars is the character devices that are a GPU, as major:minor with blanks between them: "195:0 226:128".
	Chars string
}

// DeviceKind says what a device is for.
type DeviceKind string

// Kinds of device.
const (
	NIC     DeviceKind = "nic"
	NVMe    DeviceKind = "nvme"
	Storage DeviceKind = "storage" // other disks and their controllers
	GPU     DeviceKind = "gpu"
	Accel   DeviceKind = "accel" // InfiniBand, coprocessors, DSA
)

// Matrix is a square table by position in Host.Nodes. An entry is None when
// unknown; a nil Matrix is wholly unknown.
type Matrix [][]int

// Measured holds what `homenode probe` found, in the order of Host.Nodes.
type Measured struct {
	LatencyNs     [][]float64 // idle read latency from the row's CPUs to the column's memory; 0 unknown
	BandwidthMiBs [][]float64 // read bandwidth; 0 unknown
	LineOwnNs     float64     // a cache line from another core of the same last-level cache; 0 unknown
	LineOtherNs   float64     // a cache line from another last-level cache of the same node; 0 unknown
	Source        Source      // MeasuredNow or MeasuredBefore; "" counts as MeasuredBefore
}

// Note is something about the machine or its description that a person should know.
type Note struct {
	Subject string // "node2", "slit", "cpu0"
	Text    string
}

// Source says where a distance comes from, best first.
type Source string

// Sources of distances.
const (
	MeasuredNow    Source = "measured"
	MeasuredBefore Source = "cached" // measured earlier on the same hardware, firmware and kernel
	FromHMAT       Source = "HMAT"   // the firmware's latencies
	FromSLIT       Source = "SLIT"   // the firmware's relative distances
	Assumed        Source = "default"
)

// Access is what an access from the CPUs of node i costs to memory of node j,
// by position in Nodes, the access to a node's own memory being 1, and where
// that is known from. 0 and Assumed when nothing tells.
func (h *Host) Access(i, j int) (cost float64, source Source) {
	if m := h.Measured; m != nil {
		if c := relative(m.LatencyNs, i, j); c > 0 {
			if m.Source == "" {
				return c, MeasuredBefore
			}
			return c, m.Source
		}
	}
	// The HMAT that the kernel shows has few pairs; without the node's own there
	// is nothing to compare with.
	if i < len(h.HMAT) && i < len(h.HMAT[i]) && h.HMAT[i][i] > 0 {
		if c := relative(h.HMAT, i, j); c > 0 {
			return c, FromHMAT
		}
	}
	if i < len(h.Distances) && j < len(h.Distances[i]) {
		// 255 is "unreachable" (ACPI 6.5, 5.2.17).
		if d := h.Distances[i][j]; d > 0 && (d < maxDistance || i == j) {
			local := localDistance
			if i < len(h.Distances[i]) && h.Distances[i][i] > 0 {
				local = h.Distances[i][i]
			}
			return float64(d) / float64(local), FromSLIT
		}
	}
	return 0, Assumed
}

// relative is a latency over the row's own, or over the lowest of the row where
// the node has no memory of its own; 0 when unknown.
func relative(ns [][]float64, i, j int) float64 {
	if i >= len(ns) || j >= len(ns[i]) || !(ns[i][j] > 0) {
		return 0
	}
	local := 0.0
	if i < len(ns[i]) {
		local = ns[i][i]
	}
	if !(local > 0) {
		for _, l := range ns[i] {
			if l > 0 && (local == 0 || l < local) {
				local = l
			}
		}
	}
	return ns[i][j] / local
}
