package api

import (
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// House is the machine as one picture, small enough to be sent to many viewers: GET /v1/house.
// Where many workloads live in one home the smaller ones are told together, by namespace.
// Figures are rounded, so that what has hardly changed is not sent again.
type House struct {
	Schema  string    `json:"schema"`  // homenode-house/2
	Seq     uint64    `json:"seq"`     // number of this picture, rising by one with each
	Time    time.Time `json:"time"`    // when the host was looked at
	Version string    `json:"version"` // version of the homenode that answers
	Mode    string    `json:"mode"`    // mode of the daemon: observe or enforce
	Held    bool      `json:"held"`    // true from undo --all until resume --all: nothing is changed
	Host    string    `json:"host"`    // name of the machine

	Summary HouseSummary `json:"summary"` // what to know first
	// how local online work has been since the daemon started; absent without a daemon
	Trend     *Trend       `json:"trend,omitempty"`
	Machine   HouseMachine `json:"machine"`   // what hardly ever changes
	Nodes     []HouseNode  `json:"nodes"`     // NUMA nodes, by rising ID
	Residents []Resident   `json:"residents"` // workloads, and groups of them
	// accesses of online work that is not at home, from one node's CPUs to another's memory, the largest first
	Flows  []Flow       `json:"flows"`
	Events []HouseEvent `json:"events"` // the newest events, rising by number
}

// HouseSummary is what to know first.
type HouseSummary struct {
	State    string `json:"state"`    // state in a word: at home, moving, away, trouble, held or unseen
	Headline string `json:"headline"` // the state in a sentence, with its numbers
	// online workloads that have or need a home: all but those left alone
	Workloads int `json:"workloads"`
	AtHome    int `json:"at_home"` // of these, those with nothing left to do
	Moving    int `json:"moving"`  // of these, those whose pages move or rest between two moves
	Waiting   int `json:"waiting"` // of these, those with steps to come: queued, would move
	Trouble   int `json:"trouble"` // of these, those that failed, have no room or do not answer
	// workloads that are not homenode's to place, and those undone by hand
	LeftAlone int `json:"left_alone"`
	Small     int `json:"small"` // workloads too small to be placed
	// batch workloads: they have no home, and count in nothing above but small
	Batch     int     `json:"batch"`
	BatchCPUs float64 `json:"batch_cpus"` // CPUs that they keep busy
	// share of local accesses over all online workloads, weighed by CPU use, 0 to 1; null unknown
	Locality      *float64 `json:"locality"`
	LocalityAfter *float64 `json:"locality_after"` // the same when all steps are done; null unknown
	CPUs          int      `json:"cpus"`           // online CPUs
	CPUUse        *float64 `json:"cpu_use"`        // CPUs busy; null unknown
	MemoryKiB     int64    `json:"memory_kib"`     // memory in all, KiB
	UsedKiB       int64    `json:"used_kib"`       // memory that is neither free nor reclaimable, KiB
	// tightest latency goal: "db p99 1.4 of 2 ms, held"; absent without goals
	Goal     string   `json:"goal,omitempty"`
	Problems []string `json:"problems"` // what could not be read or done, a sentence each; 20 at most
}

// HouseMachine is the machine's parts.
type HouseMachine struct {
	CPU string `json:"cpu"` // model of the CPU; "" unknown
	// packages with their NUMA nodes; -1 has the nodes of no one package
	Packages []HousePackage `json:"packages"`
	Rooms    []HouseRoom    `json:"rooms"` // what each NUMA node is made of, by rising ID
	// cost of an access from the row's CPUs to the column's memory, a local one being 1; 0 unknown
	Access [][]float64 `json:"access"`
	// where that is known from: measured, cached, HMAT, SLIT or default
	Source string `json:"source"`
	// measured latency in the same order, ns; absent when it was not measured
	Latency [][]float64 `json:"latency_ns,omitempty"`
}

// HousePackage is one package.
type HousePackage struct {
	ID    topology.PackageID `json:"id"`    // package ID of the kernel
	Nodes []topology.NodeID  `json:"nodes"` // its NUMA nodes
}

// HouseRoom is the parts of one NUMA node.
type HouseRoom struct {
	ID        topology.NodeID      `json:"id"`         // node ID of the kernel
	MemoryKiB int64                `json:"memory_kib"` // memory in all, KiB; -1 unknown
	Kind      string               `json:"kind"`       // kind of memory: dram, special or none
	CPUs      int                  `json:"cpus"`       // online CPUs
	LLCs      [][][]topology.CPUID `json:"llcs"`       // CPUs by last-level cache and core: SMT siblings together
	Devices   []string             `json:"devices"`    // PCI devices on it: kernel name or address
}

// HouseNode is what a NUMA node has to do now.
type HouseNode struct {
	ID     topology.NodeID `json:"id"`      // node ID of the kernel
	CPUUse *float64        `json:"cpu_use"` // CPUs busy; null unknown
	// memory that is neither free nor reclaimable, KiB; null unknown
	UsedKiB   *int64        `json:"used_kib"`
	BookedKiB int64         `json:"booked_kib"`        // memory that placements have booked, KiB
	VCPUs     float64       `json:"vcpus"`             // vCPUs that placements have booked
	Bandwidth *int64        `json:"bandwidth_mib_s"`   // traffic of its memory, MiB/s; null unknown
	Workloads int           `json:"workloads"`         // workloads that have their home here, or a part of it
	Dedicated string        `json:"dedicated"`         // its CPUs that dedicated work holds, in list format
	Partition string        `json:"partition"`         // its CPUs kept for dedicated work, in list format
	More      []string      `json:"more,omitempty"`    // other figures of the node, a sentence each
	Wrong     []string      `json:"wrong,omitempty"`   // what balancing finds wrong here, a sentence each
	Sharing   *HouseSharing `json:"sharing,omitempty"` // what batch work has of it; absent while sharing is off
}

// HouseSharing is what batch work may have of a NUMA node, and who keeps how many of its CPUs busy.
type HouseSharing struct {
	CPUs   float64 `json:"cpus"`   // CPUs that batch work may keep busy now
	Used   float64 `json:"used"`   // CPUs that batch work keeps busy
	Online float64 `json:"online"` // CPUs that online work keeps busy, without dedicated work
	Given  string  `json:"given"`  // CPUs that batch work may use, in list format
}

// Resident is one workload, or several that are told together.
type Resident struct {
	ID string `json:"id"` // ID, as explain takes it; of a group "group:" and its name
	// name of the workload, made printable; of a group that of its namespace
	Name  string         `json:"name"`
	Count int            `json:"count"`           // number of workloads: 1, or more for a group
	Group string         `json:"group"`           // namespace of a pod; else slice, guests or processes
	Pod   bool           `json:"pod,omitempty"`   // whether group is a namespace of Kubernetes
	Guest bool           `json:"guest,omitempty"` // whether it is a virtual machine
	Class workload.Class `json:"class"`           // class: what it is promised
	// tier of one workload: how batch work goes beside it; absent while sharing is off
	Tier workload.Tier `json:"tier,omitempty"`
	Home string        `json:"home"` // home nodes by plan, in list format; "" without a home
	// last-level caches of its home that it is kept in, in list format; absent means all
	Caches    string        `json:"caches,omitempty"`
	CPUs      int           `json:"cpus"`              // vCPUs that it counts with
	CPUUse    float64       `json:"cpu_use"`           // CPUs that it keeps busy
	MemoryKiB int64         `json:"memory_kib"`        // memory that it holds, KiB
	ByNode    []NodeKiB     `json:"memory_by_node"`    // memory that it holds, by node
	Locality  *float64      `json:"locality"`          // share of local accesses now, 0 to 1; null unknown
	After     *float64      `json:"locality_expected"` // share of local accesses after the plan; null unknown
	State     string        `json:"state"`             // state of a workload
	Why       string        `json:"why,omitempty"`     // why it is in that state; absent at home
	Moved     *ResidentMove `json:"move,omitempty"`    // its page move under way
}

// ResidentMove is how far a page move is.
type ResidentMove struct {
	Planned int64    `json:"planned"` // bytes off home when it began
	Moved   int64    `json:"moved"`   // bytes moved
	Left    *float64 `json:"left_s"`  // time it still takes, s; null unknown
}

// Flow is accesses from the CPUs of one node to the memory of another.
type Flow struct {
	From topology.NodeID `json:"from"`            // node whose CPUs access
	To   topology.NodeID `json:"to"`              // node whose memory is accessed
	CPUs float64         `json:"cpus"`            // CPUs whose work makes these accesses
	MiBs *float64        `json:"mib_s,omitempty"` // traffic, MiB/s; absent where no counter tells of all of it
	By   []string        `json:"by"`              // names of the workloads behind it, the largest three first
}

// HouseEvent is an event for the timeline.
type HouseEvent struct {
	Seq  uint64    `json:"seq"`  // number of the event, rising
	Time time.Time `json:"time"` // when it happened
	Kind string    `json:"kind"` // kind of event
	// ID of the workload that it is about; absent when it is about the host
	Workload workload.ID `json:"workload,omitempty"`
	Name     string      `json:"name,omitempty"`            // that workload's name, where it is still known
	Text     string      `json:"text"`                      // what happened, made printable
	Error    bool        `json:"error,omitempty"`           // whether it is a failure
	Before   *float64    `json:"locality_before,omitempty"` // of a page move that ended: share of local accesses before
	After    *float64    `json:"locality_after,omitempty"`  // of a page move that ended: share of local accesses after
	By       string      `json:"by,omitempty"`              // who asked for it; absent when nobody did
	// numbers of earlier events of the same page move: this one stands for all of them
	Replaces []uint64 `json:"replaces,omitempty"`
}

// HouseChange is what makes one House of the one before: GET /v1/house/changes sends them. What is
// absent is as it was.
type HouseChange struct {
	Seq       uint64        `json:"seq"`                 // number of the House that it makes
	Time      time.Time     `json:"time"`                // when the host was looked at
	Mode      string        `json:"mode,omitempty"`      // mode of the daemon
	Held      *bool         `json:"held,omitempty"`      // whether everything is held
	Summary   *HouseSummary `json:"summary,omitempty"`   // whole
	Trend     *Trend        `json:"trend,omitempty"`     // whole
	Machine   *HouseMachine `json:"machine,omitempty"`   // whole
	Nodes     []HouseNode   `json:"nodes,omitempty"`     // those that have changed
	Residents []Resident    `json:"residents,omitempty"` // those that are new or have changed
	Gone      []string      `json:"gone,omitempty"`      // IDs of the residents that are no longer there
	Flows     *[]Flow       `json:"flows,omitempty"`     // whole
	Events    []HouseEvent  `json:"events,omitempty"`    // those that are new; the oldest are to be forgotten
}

// Residents answers a search: GET /v1/house/residents?q=TEXT&group=ID, the largest 200 that fit.
type Residents struct {
	Schema    string     `json:"schema"`    // homenode-residents/2
	Count     int        `json:"count"`     // number that fit
	Residents []Resident `json:"residents"` // workloads, the largest first
}
