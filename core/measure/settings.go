package measure

import "github.com/homenode/homenode/core/topology"

// Settings are the kernel's and other programs' hands on NUMA. A nil pointer
// or "" is unknown.
type Settings struct {
	Balancing   *int       `json:"numa_balancing"`     // /proc/sys/kernel/numa_balancing
	THP         string     `json:"thp"`                // transparent_hugepage/enabled
	ZoneReclaim *int       `json:"zone_reclaim_mode"`  // vm.zone_reclaim_mode; null unknown
	HugePages   []HugePool `json:"huge_pages"`         // pools by size
	Managers    []Manager  `json:"managers"`           // that run or own CPUs or memory
	Queues      []Queues   `json:"queues"`             // of NICs and NVMe drives
	Counters    *Counters  `json:"counters,omitempty"` // of hardware that can be read
}

// Counters is what there is to tell where memory accesses go. Whether a counter opens
// is known only when it is tried: `homenode status` says so.
type Counters struct {
	PMUs     []string `json:"pmus"`     // of the processor, as the kernel names them; empty in most guests
	IMC      int      `json:"imc"`      // counters of memory controllers that tell reads and writes
	MBM      bool     `json:"mbm"`      // resctrl counts memory bandwidth
	Paranoid *int     `json:"paranoid"` // /proc/sys/kernel/perf_event_paranoid
}

// HugePool is the pools of one page size over all nodes.
type HugePool struct {
	SizeKiB int64   `json:"size_kib"` // of a page
	Total   []int64 `json:"total"`    // by position in Nodes
	Free    []int64 `json:"free"`     // pages by node
}

// Manager is another program that places things.
type Manager struct {
	Name string `json:"name"` // irqbalance, numad, tuned, kubelet, libvirt, kernel NUMA balancing
	Does string `json:"does"` // in words: "static CPU manager policy", "pins 3 guests"
	// Owns is what homenode leaves to it, in words; "" when homenode works beside it.
	Owns string `json:"owns,omitempty"`
	// CPUs is what it keeps for work of its own: homenode gives them to nobody.
	CPUs topology.CPUSet `json:"cpus,omitzero"`
	// Guests is the names of running guests whose definition it pins by.
	Guests []string `json:"guests,omitempty"`
}

// Queues tells where the interrupts of a device go.
type Queues struct {
	Device string `json:"device"` // by its kernel name
	Kind   string `json:"kind"`   // of device
	Node   int    `json:"node"`   // the device's
	Total  int    `json:"total"`  // interrupts with a known target
	Away   int    `json:"away"`   // … whose CPUs are all on other nodes
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
	State      string    `json:"state"`      // of the verdict that matters most
	Severity   Severity  `json:"severity"`   // of the worst verdict
	Confidence float64   `json:"confidence"` // of the first verdict, 0 to 1
	Verdicts   []Verdict `json:"verdicts"`   // the surest first
	Findings   []Finding `json:"findings"`   // about settings
	NotKnown   []string  `json:"not_known"`  // sentences on what could not be found out
}

// Verdict is one thing that the machine is.
type Verdict struct {
	State       string     `json:"state"`        // that the machine is in, as a code
	Severity    Severity   `json:"severity"`     // how bad that is
	Confidence  float64    `json:"confidence"`   // 0 to 1
	Says        string     `json:"says"`         // the verdict in a sentence
	Evidence    []Evidence `json:"evidence"`     // for and against it
	Advice      []string   `json:"advice"`       // what to do, a sentence each
	WouldChange string     `json:"would_change"` // what would change our mind
}

// Evidence is one fact under a verdict.
type Evidence struct {
	Rule      string `json:"rule"`      // E1 to E9
	Says      string `json:"says"`      // the fact in a sentence
	Value     Value  `json:"value"`     // that was found
	Threshold Value  `json:"threshold"` // that it is held against
	Source    string `json:"source"`    // file or measurement it comes from
}

// Finding is one thing about settings.
type Finding struct {
	Subject  string   `json:"subject"`  // what it is about
	Severity Severity `json:"severity"` // how bad it is
	Says     string   `json:"says"`     // the finding in a sentence
	Advice   string   `json:"advice"`   // what to do about it
}
