package measure

import "github.com/homenode/homenode/core/topology"

// Settings are what the kernel and other programs do about NUMA; null and "" are unknown.
type Settings struct {
	Balancing   *int       `json:"numa_balancing"`     // value of kernel.numa_balancing; null unknown
	THP         string     `json:"thp"`                // setting of /sys/kernel/mm/transparent_hugepage/enabled
	ZoneReclaim *int       `json:"zone_reclaim_mode"`  // value of vm.zone_reclaim_mode; null unknown
	HugePages   []HugePool `json:"huge_pages"`         // pools of huge pages, by size
	Managers    []Manager  `json:"managers"`           // programs that run here and place work or own CPUs or memory
	Queues      []Queues   `json:"queues"`             // interrupts of NICs and NVMe drives
	Counters    *Counters  `json:"counters,omitempty"` // hardware counters that can be read
	// whether guests that homenode bound run here, and libvirt has no hook of homenode's (homenode vm hook)
	NoHook bool `json:"no_hook,omitempty"`
	// sched_ext scheduler that is loaded, as the kernel names it, or none; absent where the kernel has no sched_ext
	SchedExt string `json:"sched_ext,omitempty"`
	CgroupV1 bool   `json:"cgroup_v1,omitempty"` // whether CPU sets are with cgroup version 1 (cgroups(7))
	// Cache-aware scheduling of the kernel; absent in documents of older versions.
	CacheAware *topology.CacheAware `json:"cache_aware,omitempty"`
}

// Counters is what there is to tell where memory accesses go. Whether a counter opens
// is known only when it is tried: `homenode status` says so.
type Counters struct {
	PMUs     []string `json:"pmus"`     // PMUs of the processor, as the kernel names them; empty in most guests
	IMC      int      `json:"imc"`      // counters of memory controllers that tell reads and writes
	MBM      bool     `json:"mbm"`      // whether resctrl counts memory bandwidth
	Paranoid *int     `json:"paranoid"` // value of kernel.perf_event_paranoid; null unknown
}

// HugePool is the pools of one page size over all nodes.
type HugePool struct {
	SizeKiB int64   `json:"size_kib"` // size of a page, KiB
	Total   []int64 `json:"total"`    // pages, free and used, in the order of nodes
	Free    []int64 `json:"free"`     // free pages, in the order of nodes
}

// Manager is another program that places things.
type Manager struct {
	// name of the program, such as irqbalance, numad, tuned, kubelet or libvirt
	Name string `json:"name"`
	Does string `json:"does"` // what it does, in words
	// what homenode leaves to it, in words; absent when homenode works beside it
	Owns string `json:"owns,omitempty"`
	// CPUs that it keeps for work of its own: homenode gives them to nobody
	CPUs   topology.CPUSet `json:"cpus,omitzero"`
	Guests []string        `json:"guests,omitempty"` // names of running guests that their definitions pin
}

// Queues is where the interrupts of one device go.
type Queues struct {
	Device string `json:"device"` // kernel name, such as eth0
	Kind   string `json:"kind"`   // kind of device
	Node   int    `json:"node"`   // NUMA node that it is on; -1 unknown
	Total  int    `json:"total"`  // interrupts whose CPUs are known
	Away   int    `json:"away"`   // interrupts whose CPUs are all on other nodes
}

// Severity orders verdicts and findings.
type Severity string

// Severities; doctor's exit status follows the worst.
const (
	Healthy   Severity = "healthy"
	Info      Severity = "info"
	Warning   Severity = "warning"
	Defect    Severity = "defect"
	Undecided Severity = "undecided"
)

// Diagnosis is what doctor found.
type Diagnosis struct {
	State      string    `json:"state"`      // state by the first verdict, as a code
	Severity   Severity  `json:"severity"`   // the worst severity of all verdicts
	Confidence float64   `json:"confidence"` // confidence of the first verdict, 0 to 1
	Verdicts   []Verdict `json:"verdicts"`   // verdicts, the surest first
	Findings   []Finding `json:"findings"`   // findings about settings
	NotKnown   []string  `json:"not_known"`  // what could not be found out, a sentence each
}

// Verdict is one statement on the machine, with what it rests on.
type Verdict struct {
	State       string     `json:"state"`        // state of the machine, as a code
	Severity    Severity   `json:"severity"`     // how bad it is
	Confidence  float64    `json:"confidence"`   // how sure it is, 0 to 1
	Says        string     `json:"says"`         // the verdict, in a sentence
	Evidence    []Evidence `json:"evidence"`     // facts for and against it
	Advice      []string   `json:"advice"`       // what to do, a sentence each
	WouldChange string     `json:"would_change"` // what would change the verdict, in a sentence
}

// Evidence is one fact under a verdict.
type Evidence struct {
	Rule      string `json:"rule"`      // rule that the fact belongs to: E0 to E9
	Says      string `json:"says"`      // the fact, in a sentence
	Value     Value  `json:"value"`     // value that was found; null when the fact is no number
	Threshold Value  `json:"threshold"` // value that it is compared with; null when there is none
	Source    string `json:"source"`    // file or measurement that it comes from
}

// Finding is one finding about settings.
type Finding struct {
	Subject  string   `json:"subject"`  // what it is about
	Severity Severity `json:"severity"` // how bad it is
	Says     string   `json:"says"`     // the finding, in a sentence
	Advice   string   `json:"advice"`   // what to do about it; "" when nothing is to be done
}
