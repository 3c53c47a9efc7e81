package workload

import (
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Kind tells through which driver a workload is reached.
type Kind string

// Kinds of workload.
const (
	InCgroup  Kind = "cgroup"  // a cgroup v2 leaf of its own
	InProcess Kind = "process" // a process tree without a cgroup of its own
	InDevice  Kind = "device"  // no workload: the interrupts and queues of a PCI device
	InKernel  Kind = "kernel"  // the kernel's scheduler for batch work, and which threads it has
	InCache   Kind = "cache"   // the group of resctrl that batch work has
	InHost    Kind = "host"    // no workload: settings of the host itself (core/hostprep)
)

// NodeMemory is memory on one node.
type NodeMemory struct {
	Node topology.NodeID // node ID of the kernel
	KiB  topology.KiB    // memory on that node, KiB
}

// NodeShare is a part (0 to 1) of something that falls to one node.
type NodeShare struct {
	Node  topology.NodeID
	Share float64
}

// Process is one process of a workload. PID and Start together name it for
// good: the kernel reuses PIDs, never with the same start time.
type Process struct {
	PID   int    // process ID
	Start uint64 // start time in clock ticks since boot, field 22 of /proc/PID/stat
}

// Source says how a figure was come by.
type Source string

// Sources of locality, best first; MBM comes after Counters.
const (
	Counters  Source = "counters"   // hardware counters told local from remote accesses
	Hints     Source = "numa-hints" // the kernel sampled accesses by page faults (NUMA balancing)
	Residence Source = "residence"  // where it ran × where its memory lies: Locality
)

// Sources of the traffic of a node's memory, best first.
const (
	IMC Source = "imc" // the memory controllers' own counters
	MBM Source = "mbm" // resctrl, per last-level cache: what its CPUs asked for, or of a workload its groups
)

// Signals that a workload is hurt by others.
const (
	PSI        Source = "psi"        // cpu.pressure: it waits for a CPU
	Schedstat  Source = "schedstat"  // /proc/PID/schedstat: the same, by thread
	Throttling Source = "throttling" // cpu.stat: a limit of its own holds it back
	CPI        Source = "cpi"        // cycles an instruction
	Bandwidth  Source = "bandwidth"  // traffic of a node's memory
)

// Sources of "where it ran", best first.
const (
	PerThread  Source = "threads" // CPU time of each thread in the window, at the CPU it was last seen on
	AllowedSet Source = "allowed" // no time seen: spread over the CPUs it may use
)

// PolicyUnknown stands for a memory policy that could not be read.
const PolicyUnknown = "unknown"

// MostPerThread is how many threads a workload may have to be looked at thread by thread. With
// three files each that is 30 ms of a look.
const MostPerThread = 512

// Observation is what was seen of one workload over one window.
type Observation struct {
	ID        ID
	Name      string
	Kind      Kind
	Cgroup    string    // path below the cgroup root; for a process the cgroup it shares
	Processes []Process // rising by PID
	Threads   int
	Window    time.Duration // 0 on the first look
	CPUTime   time.Duration // total since start, user and system
	CPUUse    float64       // CPUs kept busy over the window; the lifetime mean on the first look
	FirstSeen bool          `json:",omitempty"` // CPUUse is a lifetime mean: no scan before saw it
	RanOn     []NodeShare   // where the CPU time was spent, rising by node; sums to 1 unless empty
	RanOnFrom Source
	// Waited is the share of the last ten seconds, 0 to 1, in which some task of it waited for
	// a CPU though no limit of its own held it back (nr_throttled of cpu.stat); 0 when not read.
	Waited     float64 `json:",omitzero"`
	WaitedFrom Source  `json:",omitzero"` // PSI or Schedstat; "" when not read
	// Throttled is the share, 0 to 1, of the periods of its cpu.max in which that held it back,
	// since the look before; 0 when not read.
	Throttled float64      `json:",omitzero"`
	Executed  Executed     `json:",omitzero"`
	Slices    Slices       `json:",omitzero"`
	Vhost     Vhost        `json:",omitzero"`
	Bandwidth int64        // memory traffic over the window, MiB/s; 0 when no counter tells
	Accesses  Accesses     `json:",omitzero"`
	Memory    []NodeMemory // resident, by node, rising; page cache of a cgroup is not in it
	Anon      []NodeMemory // the anonymous part of Memory
	// Movable is the part of Memory that a page move can take home: Memory without
	// mapped page cache, which belongs to the file and to everyone who maps it. nil
	// means all of it.
	Movable []NodeMemory
	// Used is the memory that it has accessed since the kernel last asked, at least: Referenced of smaps_rollup, with
	// what processes share divided among them. 0 when not read; see Control's Attention.Tiered.
	Used topology.KiB `json:",omitzero"`
	// Kernel is the kernel's own memory for it, from memory.numa_stat.
	Kernel Kernel           `json:",omitzero"`
	CPUs   topology.CPUSet  // CPUs it may use now
	Mems   topology.NodeSet // nodes it may take memory from now
	// Lower is the nodes of slower memory to which the kernel moves cold pages. Memory there is local.
	Lower topology.NodeSet `json:",omitzero"`
	// UnevenCPUs and UnevenMems: its cgroups may not all use the same; CPUs and Mems are of
	// all of them together.
	UnevenCPUs bool `json:",omitzero"`
	UnevenMems bool `json:",omitzero"`
	// OwnPolicy is the memory policy the workload set itself on the largest part
	// of its memory, as numa_maps writes it ("bind:3", "interleave:0-3"); "" when
	// that is the default policy, PolicyUnknown when it could not be read.
	OwnPolicy string
	// CgroupID is the inode of the cgroup: another one under the same path has another
	// (kernfs IDs, fs/kernfs/dir.c). 0 when unknown.
	CgroupID uint64 `json:",omitzero"`
	// UID is the user that a process tree, or a cgroup below user.slice, belongs to; 0 for
	// root and when it is not known. Nobody but their user manages such workloads.
	UID int `json:",omitzero"`
	// Owner is the party responsible for it, as far as the observer found out; see Responsible.
	Owner Owner `json:",omitzero"`
	// MemoryUnread: where its memory lies and its policies have not been read yet, for the
	// time that a look may take was used up. Memory is without what is not read.
	MemoryUnread bool `json:",omitzero"`
	// MemoryMoved: its pages were moved since it was read where its memory lies.
	MemoryMoved bool `json:",omitzero"`
	// Unanswered: a process of it does not answer when its memory is asked for, and would
	// stop whoever asks. Its pages are left alone; Problems has more.
	Unanswered bool `json:",omitzero"`
	// Unasked: it counts as Unanswered because so many other processes of its owner do not
	// answer that its own are not asked.
	Unasked bool `json:",omitzero"`
	Caps    Caps `json:",omitzero"`
	// VCPUs is where the threads of vCPUs ran, rising by vCPU and node, and Asked the memory
	// for which the process asked for one node (mbind(2)), rising by that node: of hypervisors
	// alone, whose guests may be placed in parts.
	VCPUs []ThreadTime  `json:",omitempty"`
	Asked []AskedMemory `json:",omitempty"`
	// VCPUSets is the CPUs that the threads of its vCPUs may use: Claim.VCPUSets.
	VCPUSets []topology.CPUSet `json:",omitempty"`
	// AskedFor is the node that the memory of a part of a process was asked for; empty where
	// all memory of the process is meant.
	AskedFor topology.NodeSet `json:",omitzero"`
	// Pinned is true when threads of the workload have an affinity narrower than
	// its cgroup allows, set by itself or by another manager.
	Pinned    bool
	PinnedWhy string // which threads, in words; "" unless Pinned
	// PerThread is the threads of a workload whose home has several nodes, rising by process
	// and thread; empty for others, while it is not read, and where there are too many.
	PerThread []Thread `json:",omitempty"`
	// PerProcess is the anonymous memory of each process of such a workload, rising by PID; of
	// processes whose memory has not been read it has none.
	PerProcess []ProcessMemory `json:",omitempty"`
	// Terminal: its root process is the shell of a terminal (a login, a pane of tmux), or
	// starts such shells (sshd, login, tmux). Whatever is typed there inherits its CPUs.
	// What such a shell has started is not in it, but for `homenode run`.
	Terminal bool `json:",omitzero"`
}

// Thread is one thread of a workload that is wider than a node.
type Thread struct {
	Process int             // process ID
	TID     int             // thread ID
	CPUs    topology.CPUSet // CPUs it may use now
	// Use is the CPUs that it kept busy since it was looked at before, 0 to 1; on the first look since it began.
	Use float64
	On  topology.NodeSet `json:",omitzero"` // node of the CPU that it ran on last; empty when unknown
	// Faults is the hinting faults that the kernel's NUMA balancing has sampled of its accesses,
	// by node of the memory, the older the less: what it uses lies there. Rising by node;
	// empty where nothing was sampled.
	Faults []NodeFaults `json:",omitempty"`
	// how often NUMA balancing has gone through the memory of its process so far
	Scans uint64 `json:",omitempty"`
}

// ProcessMemory is where the anonymous memory of one process lies.
type ProcessMemory struct {
	Process int          // process ID
	Memory  []NodeMemory // rising by node
	// RanOn is where its threads may run, by what each uses, rising by node; it sums to 1, and is empty while
	// they are not read. Use is the CPUs that they keep busy.
	RanOn []NodeShare `json:",omitempty"`
	Use   float64     `json:",omitzero"`
}

// NodeFaults is hinting faults on memory of one node.
type NodeFaults struct {
	Node   topology.NodeID
	Faults uint64
}

// Accesses is what was counted or sampled of a workload's accesses to memory.
type Accesses struct {
	From Source // Counters, MBM or Hints; "" when nothing tells
	// Local is the share, 0 to 1, that went to the node of the CPU they came from.
	Local float64
	// PerSecond is the reads that memory had to answer while counted; of most counters
	// without prefetches and writes, so it is less than the traffic. 0 when only sampled.
	PerSecond float64 `json:",omitempty"`
}

// Executed is what was counted since counting began. It begins again at 0 when the counting
// does, and is 0 where nothing is counted.
type Executed struct {
	Cycles       float64 // of CPUs that were not halted
	Instructions float64 // that were completed
}

// Slices is how the threads of a workload came to run, over some ten seconds; all 0 when not
// read, or where the kernel does not count (CONFIG_SCHED_INFO).
type Slices struct {
	PerSecond float64       `json:",omitzero"` // how often some thread was put on a CPU
	Mean      time.Duration `json:",omitzero"` // for which it ran then
	// share, 0 to 1, of the time that threads wanted to run in which they waited for a CPU
	Waited float64 `json:",omitzero"`
	// share, 0 to 1, of the time in which busy threads wanted nothing; those that used a hundredth of a CPU or more
	Asleep float64 `json:",omitzero"`
}

// Vhost is the threads of the kernel that carry the packets and blocks of a guest (vhost): since
// Linux 6.4 threads of QEMU, before that threads of the kernel that are named after it.
type Vhost struct {
	Threads int              `json:",omitzero"`
	CPUUse  float64          `json:",omitzero"` // CPUs kept busy since they were looked at before
	CPUs    topology.CPUSet  `json:",omitzero"` // that they may use, together
	Nodes   topology.NodeSet `json:",omitzero"` // where they were seen last
}

// Kernel is the kernel's own memory for a workload: no page move takes it along. It is from memory.numa_stat of the
// workload's cgroup (mm/memcontrol.c, since 5.12).
type Kernel struct {
	PageTables   []NodeMemory `json:",omitempty"` // walked at each miss of a TLB
	NestedTables []NodeMemory `json:",omitempty"` // of guests: from a guest's addresses to the host's
	Stacks       []NodeMemory `json:",omitempty"` // of its threads in the kernel
}

// Same reports whether nothing that homes go by has changed from one observation to
// another: totals (of CPU time, of what was executed), the length of the window, time slices, vhost
// threads, what limits of its own held back, what it used of its memory and memory of the kernel are not compared.
func (o *Observation) Same(p *Observation) bool {
	return o.CPUUse == p.CPUUse && o.Waited == p.Waited && o.WaitedFrom == p.WaitedFrom && o.ID == p.ID &&
		o.Name == p.Name && o.Kind == p.Kind && o.Cgroup == p.Cgroup && o.Threads == p.Threads &&
		same(o.VCPUs, p.VCPUs) && o.AskedFor.Equal(p.AskedFor) && (o.Asked == nil) == (p.Asked == nil) &&
		slices.EqualFunc(o.Asked, p.Asked, AskedMemory.same) &&
		same(o.Memory, p.Memory) && same(o.RanOn, p.RanOn) && same(o.Processes, p.Processes) && same(o.Anon, p.Anon) &&
		same(o.Movable, p.Movable) &&
		o.CPUs.Equal(p.CPUs) && o.Mems.Equal(p.Mems) && o.Lower.Equal(p.Lower) &&
		o.RanOnFrom == p.RanOnFrom && o.Bandwidth == p.Bandwidth && o.Accesses == p.Accesses &&
		o.OwnPolicy == p.OwnPolicy && o.CgroupID == p.CgroupID && o.UID == p.UID && o.Owner == p.Owner &&
		o.MemoryUnread == p.MemoryUnread && o.MemoryMoved == p.MemoryMoved && o.Unanswered == p.Unanswered &&
		o.Unasked == p.Unasked && o.FirstSeen == p.FirstSeen &&
		o.UnevenCPUs == p.UnevenCPUs && o.UnevenMems == p.UnevenMems && o.Caps == p.Caps && o.Pinned == p.Pinned &&
		o.PinnedWhy == p.PinnedWhy && o.Terminal == p.Terminal &&
		sameThreads(o.PerThread, p.PerThread) && sameProcesses(o.PerProcess, p.PerProcess) &&
		(o.VCPUSets == nil) == (p.VCPUSets == nil) && slices.EqualFunc(o.VCPUSets, p.VCPUSets, topology.CPUSet.Equal)
}

func (a AskedMemory) same(b AskedMemory) bool {
	return a.Node == b.Node && a.Huge == b.Huge && same(a.Memory, b.Memory)
}

func same[T comparable](a, b []T) bool {
	return len(a) == len(b) && (a == nil) == (b == nil) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

func sameThreads(a, b []Thread) bool {
	return len(a) == len(b) && (a == nil) == (b == nil) &&
		(len(a) == 0 || &a[0] == &b[0] || slices.EqualFunc(a, b, func(t, u Thread) bool {
			return t.Process == u.Process && t.TID == u.TID && t.Use == u.Use && t.Scans == u.Scans &&
				t.CPUs.Equal(u.CPUs) && t.On.Equal(u.On) && same(t.Faults, u.Faults)
		}))
}

func sameProcesses(a, b []ProcessMemory) bool {
	return len(a) == len(b) && (a == nil) == (b == nil) && slices.EqualFunc(a, b, func(x, y ProcessMemory) bool {
		return x.Process == y.Process && x.Use == y.Use && same(x.Memory, y.Memory) && same(x.RanOn, y.RanOn)
	})
}

// SameCgroup reports whether an object, the decimal inode of a cgroup, is the cgroup that was observed, and not an
// earlier or a later one under its path. It is where one of the two is not known.
func (o *Observation) SameCgroup(object string) bool {
	if object == "" || o.CgroupID == 0 {
		return true
	}
	var digits [20]byte // thousands are compared at every scan: none is allocated for
	return object == string(strconv.AppendUint(digits[:0], o.CgroupID, 10))
}

// LocalShare is the best that is known of the share of accesses that stay on their
// node, and where it is known from: what was counted, else sampled, else expected
// from residence. It is false when nothing tells.
func (o *Observation) LocalShare() (share float64, from Source, ok bool) {
	if o.Accesses.From != "" {
		return o.Accesses.Local, o.Accesses.From, true
	}
	share, ok = o.Expected()
	return share, Residence, ok
}

// idleUse is added to the CPUs that each process keeps busy, so that one that waits counts too.
const idleUse = 0.01

// Expected returns the expected share of local accesses by where threads run and memory lies. Of work
// wider than a node, each process counts with its own memory, where all are known. It returns false without
// evidence.
func (o *Observation) Expected() (float64, bool) {
	if len(o.PerProcess) < 2 || len(o.PerProcess) != len(o.Processes) {
		return Locality(o.RanOn, o.Memory, o.Lower)
	}
	local, all := 0.0, 0.0
	for i := range o.PerProcess {
		p := &o.PerProcess[i]
		share, ok := Locality(p.RanOn, p.Memory, o.Lower)
		if !ok {
			return Locality(o.RanOn, o.Memory, o.Lower)
		}
		local += share * (p.Use + idleUse)
		all += p.Use + idleUse
	}
	return local / all, true
}

// Total is the memory over all nodes.
func Total(mem []NodeMemory) topology.KiB {
	var t topology.KiB
	for _, m := range mem {
		t += m.KiB
	}
	return t
}

// On is the memory that lies on the given nodes.
func On(mem []NodeMemory, nodes topology.NodeSet) topology.KiB {
	var t topology.KiB
	for _, m := range mem {
		if nodes.Has(m.Node) {
			t += m.KiB
		}
	}
	return t
}

// MovableMemory is the memory that a page move can take home.
func (o *Observation) MovableMemory() []NodeMemory {
	if o.Movable == nil {
		return o.Memory
	}
	return o.Movable
}

// HasPolicy reports whether the workload is known to have chosen itself where new memory goes.
func (o *Observation) HasPolicy() bool { return o.OwnPolicy != "" && o.OwnPolicy != PolicyUnknown }

// Outside is the memory that lies on other nodes.
func Outside(mem []NodeMemory, nodes topology.NodeSet) []NodeMemory {
	on := func(m NodeMemory) bool { return nodes.Has(m.Node) }
	if nodes.Empty() || !slices.ContainsFunc(mem, on) {
		return mem
	}
	return slices.DeleteFunc(slices.Clone(mem), on)
}

// NodesOf is the nodes on which some of the memory lies.
func NodesOf(mem []NodeMemory) (nodes topology.NodeSet) {
	for _, m := range mem {
		if m.KiB > 0 {
			nodes.Add(m.Node)
		}
	}
	return nodes
}

// Locality is the expected share of local accesses when accesses follow CPU time
// and touch all memory alike: the sum over nodes of (share of CPU time on the
// node) × (share of memory on the node). Memory on lower, the slower tiers to which the kernel moves cold pages of
// every node, is local. It is false when either is unknown.
func Locality(ran []NodeShare, mem []NodeMemory, lower topology.NodeSet) (float64, bool) {
	total := Total(mem)
	if total <= 0 || len(ran) == 0 {
		return 0, false
	}
	var sum float64
	for _, r := range ran {
		for _, m := range mem {
			if r.Node == m.Node || lower.Has(m.Node) {
				sum += r.Share * float64(m.KiB) / float64(total)
			}
		}
	}
	return sum, true
}

// Age is how long ago a process started; 0 when that is not known.
func (s *Snapshot) Age(p Process) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever servers run Linux (filesystems/proc.rst)
	if s.Uptime <= 0 || p.Start == 0 || p.Start > uint64(s.Uptime/tick) {
		return 0
	}
	return max(tick, s.Uptime-time.Duration(p.Start)*tick)
}

// Snapshot is one look at the whole host.
type Snapshot struct {
	Host         *topology.Host // with the free memory and the online CPUs of this look
	Observations []Observation  // rising by ID
	Unmanaged    []NodeMemory   // used on each node by none of the Observations and not reclaimable, rising by node
	Problems     []Problem      // what could not be read; the look is good without it
	// Shrunk is what was reported in the look before and is still there, but no longer
	// reported by itself: it is below the thresholds now, or part of another workload.
	Shrunk []ID
	Small  int // workloads below the thresholds: not in Observations
	// Smaller is those Small ones, for people; it is not recorded.
	Smaller []Smaller `json:"-"`
	// Uptime is how long the machine runs, on the clock of Process.Start; 0 when unknown, as
	// in what was recorded before version 0.2 of homenode.
	Uptime time.Duration `json:",omitzero"`

	Nodes    []NodeUse      // rising by node; empty on the first look
	Pressure []Pressure     // of the whole host, by resource; empty without PSI
	Sources  []SourceStatus // of locality and traffic, best first
	Signals  []SourceStatus `json:",omitempty"` // that somebody is hurt by others

	// CacheAware is the kernel's cache-aware scheduling; without a State in what older versions recorded.
	CacheAware topology.CacheAware `json:",omitzero"`
	// Metrics has the readings of goals, each once, in the order of the configuration.
	Metrics []MetricReading `json:",omitempty"`
}

// Smaller is a workload below the thresholds: it is not placed.
type Smaller struct {
	ID     ID
	Name   string
	Kind   Kind
	Cgroup string       // as of an Observation
	Memory topology.KiB // resident, or charged to its cgroup
	CPUUse float64      // CPUs kept busy
}

// NodeUse is what was done on one node over the window, by whomever.
type NodeUse struct {
	Node          topology.NodeID
	CPUUse        float64 // CPUs kept busy; topology.None when unknown
	Bandwidth     int64   // traffic of its memory, MiB/s; topology.None when unknown
	BandwidthFrom Source  // "" when unknown
}

// Pressure is the share of the last ten seconds, in percent, in which some or all
// tasks waited for a resource (PSI).
type Pressure struct {
	Resource string  `json:"resource"` // resource: cpu, memory or io
	Some     float64 `json:"some"`     // share of the time in which some task waited for it, percent
	// share of the time in which all tasks waited for it, percent; 0 for cpu, where the kernel does not define it
	Full float64 `json:"full"`
}

// SourceStatus is whether a source of figures can be used here, and why not.
type SourceStatus struct {
	Source Source `json:"source"` // name of the source
	Used   bool   `json:"used"`   // whether it is used
	Text   string `json:"text"`   // what is read, or why nothing is
}

// Problem is something that could not be seen, in words.
type Problem struct {
	Subject string // workload ID, file or node
	Text    string
	Code    words.Code `json:",omitzero"` // "" for those without
}
