package report

import (
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Schema names the form of a Report.
const Schema = "homenode-report/2"

// Report is what happened in a period.
type Report struct {
	Schema string `json:"schema"` // homenode-report/2
	// name of the machine where the report was made, or the one that was given
	Host string `json:"host"`
	// version of homenode that recorded last; "" when the records do not say
	Version  string    `json:"version"`
	Mode     string    `json:"mode"`             // mode at the end: observe or enforce; "" when nothing was recorded
	From     time.Time `json:"from"`             // time of the first record or event
	To       time.Time `json:"to"`               // time of the last record or event
	Looks    int       `json:"looks"`            // looks at the host that were recorded
	Read     int       `json:"looks_read"`       // looks that were read in full, evenly spread
	Headline string    `json:"headline"`         // the period in a few sentences
	Machine  *Machine  `json:"machine"`          // the host; null when no look was recorded
	Locality Locality  `json:"locality"`         // how local memory was
	Moves    Moves     `json:"moves"`            // page moves that ended
	NotDone  []NotDone `json:"not_done"`         // what was not placed, changed or moved, by reason
	Homes    []HomesAt `json:"homes"`            // who lived where, over time
	Failures []Failure `json:"failures"`         // what failed, by code; the most frequent first
	Changed  []Changed `json:"settings_changed"` // settings that were changed, by kind
	Orders   []Order   `json:"orders"`           // what people asked for; the newest first
	Ordered  int       `json:"orders_in_all"`    // how many orders there were
	Worst    []Worst   `json:"worst"`            // workloads that lose most to remote memory; the worst first
	Nodes    []Node    `json:"nodes"`            // NUMA nodes at the end
	Gaps     []Gap     `json:"gaps"`             // times in which nothing was recorded
	Notes    []string  `json:"notes"`            // what limits this report, a sentence each
}

// Machine is the host in short.
type Machine struct {
	CPU       string `json:"cpu"`        // model; "" when unknown
	Packages  int    `json:"packages"`   // packages
	Nodes     int    `json:"nodes"`      // NUMA nodes
	CPUs      int    `json:"cpus"`       // online CPUs
	MemoryKiB int64  `json:"memory_kib"` // memory of all nodes, KiB
}

// Locality is how local memory was over time.
type Locality struct {
	Weight Weight `json:"weighted_by"` // what each workload counts by in busy
	Memory Change `json:"memory"`      // share of local accesses, each workload counting by its memory
	// share of local accesses, each workload counting by its accesses or its CPU use
	Busy    Change   `json:"busy"`
	Planned *float64 `json:"planned"` // what memory would become by the newest plan, 0 to 1; null unknown
	Points  []Point  `json:"points"`  // the curve
}

// Weight is what a workload counts by.
type Weight string

// Weights.
const (
	ByAccesses Weight = "accesses" // that were counted
	ByCPUUse   Weight = "cpu"      // CPUs kept busy, where accesses are not counted
)

// Change is an average over the first and over the last tenth of the period.
type Change struct {
	Before *float64 `json:"before"` // 0 to 1; null unknown
	After  *float64 `json:"after"`  // 0 to 1; null unknown
}

// Point is one place of the curve.
type Point struct {
	At     time.Time `json:"at"`     // time of the look
	Memory *float64  `json:"memory"` // as of Locality; null unknown
	Busy   *float64  `json:"busy"`   // as of Locality; null unknown
}

// Moves is the page moves that ended in the period.
type Moves struct {
	Count   int     `json:"count"`   // moves
	Bytes   int64   `json:"bytes"`   // bytes moved
	Stayed  int64   `json:"stayed"`  // bytes that the kernel would not move
	Seconds float64 `json:"seconds"` // time that they took without pauses, s
	Judged  int     `json:"judged"`  // moves of which both gains are known
	// mean gain in locality that they were to bring, by their memory, -1 to 1; null unknown
	Expected *float64 `json:"expected"`
	Seen     *float64 `json:"seen"`    // mean gain in locality that was seen, by their memory, -1 to 1; null unknown
	Largest  []Moved  `json:"largest"` // those of the most bytes
}

// Moved is one move.
type Moved struct {
	plan.Move
	Name     string    `json:"name"`     // name of the workload; "" when unknown
	Ended    time.Time `json:"ended"`    // when it ended
	Expected *float64  `json:"expected"` // share of local accesses that it was to bring, 0 to 1; null unknown
}

// Refusal is what kind of thing was not done.
type Refusal string

// Refusals.
const (
	NoHome     Refusal = "no home"
	LeftAlone  Refusal = "left alone"
	NotChanged Refusal = "change not made" // by balancing
	NotMoved   Refusal = "memory not moved"
)

// NotDone is one reason for which something was not done.
type NotDone struct {
	// what was not done: no home, left alone, change not made or memory not moved
	What      Refusal    `json:"what"`
	Code      words.Code `json:"code"`      // code of the reason, or cause of memory that did not move
	Text      string     `json:"text"`      // the reason in a sentence, as it was first given
	Workloads int        `json:"workloads"` // workloads that it was about
	// share of the recorded time in which it held for one at least, 0 to 1
	Share float64 `json:"share"`
	Bytes int64   `json:"bytes,omitempty"` // bytes that did not move; of memory not moved
}

// HomesAt is who lived where in a part of the period.
type HomesAt struct {
	From  time.Time   `json:"from"`  // begin of the part
	Nodes []NodeHomes `json:"nodes"` // by rising ID
}

// NodeHomes is what lived on a node, on average.
type NodeHomes struct {
	Node  topology.NodeID `json:"node"`  // node ID of the kernel
	Homes float64         `json:"homes"` // workloads; one over several nodes counts on each in equal parts
	VCPUs float64         `json:"vcpus"` // their vCPUs
}

// Failure is a kind of failure.
type Failure struct {
	Code     words.Code  `json:"code"`               // code of the event
	Count    int         `json:"count"`              // how often
	Last     time.Time   `json:"last"`               // when it was last
	Workload workload.ID `json:"workload,omitempty"` // whom the last was about; absent for the host
	Text     string      `json:"text"`               // the last in words
}

// Changed is how often a kind of setting was changed.
type Changed struct {
	Setting  string `json:"setting"`   // kind of setting, such as set-cpus
	Count    int    `json:"count"`     // how often homenode set it by itself
	Ordered  int    `json:"ordered"`   // how often because somebody asked
	PutBack  int    `json:"put_back"`  // how often it was restored
	ByOthers int    `json:"by_others"` // how often somebody else has set what homenode had set
}

// Order is what somebody asked for.
type Order struct {
	At       time.Time   `json:"at"`                 // when
	By       string      `json:"by"`                 // who: the user, and who logged in when that is another
	Workload workload.ID `json:"workload,omitempty"` // about which workload; absent for the host
	Text     string      `json:"text"`               // what, in words
}

// Worst is a workload that loses to remote memory.
type Worst struct {
	ID    workload.ID    `json:"id"`              // ID, as every command takes it
	Name  string         `json:"name"`            // name of the program, unit or guest
	Class workload.Class `json:"class,omitempty"` // class; absent without a home
	Home  string         `json:"home"`            // home nodes; "" without a home
	// last-level caches of its home that it is kept in, in list format; absent means all
	Caches    string  `json:"caches,omitempty"`
	MemoryKiB int64   `json:"memory_kib"` // memory at the end, KiB
	CPUUse    float64 `json:"cpu_use"`    // CPUs kept busy, on average
	// of these, CPUs that work on remote memory, on average: CPUs × share of remote accesses
	Remote float64 `json:"remote_cpus"`
	// share of local accesses when it was first seen, 0 to 1; null unknown
	Before *float64     `json:"before"`
	After  *float64     `json:"after"`  // share of local accesses at the end, 0 to 1; null unknown
	Advice words.Reason `json:"advice"` // what to do, with the command
}

// Node is one NUMA node at the end.
type Node struct {
	ID        topology.NodeID `json:"id"`         // node ID of the kernel
	CPUs      topology.CPUSet `json:"cpus"`       // online CPUs
	Busy      *float64        `json:"busy"`       // CPUs busy; null unknown
	MemoryKiB int64           `json:"memory_kib"` // memory in all, KiB; -1 unknown
	FreeKiB   int64           `json:"free_kib"`   // free memory, KiB; -1 unknown
	Homes     int             `json:"homes"`      // workloads with a home there
	// vCPUs booked; a workload over several nodes counts on each in equal parts
	VCPUs float64 `json:"vcpus"`
}

// Gap is a time in which nothing was recorded.
type Gap struct {
	From time.Time `json:"from"` // the last record before it, or the begin of the period
	To   time.Time `json:"to"`   // the first record after it, or the end of the period
}
