package api

import (
	"context"
	"errors"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Backend answers. The daemon is one; so is the client, and the local look that
// stands in when no daemon runs.
type Backend interface {
	Status(ctx context.Context) (Status, error)
	Explain(ctx context.Context, id workload.ID) (Explanation, error)
	History(ctx context.Context, limit int) (History, error)
	Undo(ctx context.Context, which Which) (UndoResult, error)
	Resume(ctx context.Context, which Which) error
	Place(ctx context.Context, want Want) (Home, error)
}

// ErrNoDaemon is returned by Dial when nothing listens on the socket.
var ErrNoDaemon = errors.New("no daemon is running")

// Code is the kind of a refusal.
type Code string

// Codes of refusals.
const (
	BadRequest Code = "bad request"
	NotFound   Code = "not found"
	Forbidden  Code = "forbidden"
	NoRoom     Code = "no room"
	Failed     Code = "failed"
)

// Error is a refusal with its reason in words.
type Error struct {
	Code Code   `json:"code"`
	Text string `json:"error"`
}

func (e *Error) Error() string { return e.Text }

// Status is the whole picture: GET /v1/status.
type Status struct {
	Schema    string     `json:"schema"` // homenode-status/1
	Version   string     `json:"version"`
	Mode      string     `json:"mode"` // observe, enforce, or none when no daemon runs
	Held      bool       `json:"held"` // true after undo --all until resume --all
	Time      time.Time  `json:"time"`
	TickMs    float64    `json:"tick_ms"` // what the last look and decision took
	Nodes     []Node     `json:"nodes"`
	Workloads []Workload `json:"workloads"`
	Small     int        `json:"small"` // workloads below the thresholds, not listed
	Problems  []string   `json:"problems"`

	Balance *balance.Report `json:"balance,omitempty"` // of the newest look; null before the first
	// Rivals are other programs that place things on this host, and what is left to each.
	Rivals []measure.Manager `json:"rivals"`
	// Devices is where the interrupts of NICs and NVMe drives go; empty when that is not looked at.
	Devices []Device `json:"devices"`
}

// Device is one NIC or NVMe drive in a Status.
type Device struct {
	Name       string          `json:"name"`
	Kind       string          `json:"kind"` // nic or nvme
	Node       topology.NodeID `json:"node"`
	Interrupts int             `json:"interrupts"` // in use
	AtHome     int             `json:"at_home"`    // … that go to its node's CPUs only, away from dedicated work
	Fixed      int             `json:"fixed"`      // … that the kernel manages and refused to change
	Steps      int             `json:"steps"`      // settings that differ from the plan
	State      string          `json:"state"`
	Why        string          `json:"why,omitempty"`
}

// Node is one NUMA node in a Status.
type Node struct {
	ID        topology.NodeID `json:"id"`
	CPUs      string          `json:"cpus"`
	MemoryKiB int64           `json:"memory_kib"`
	FreeKiB   int64           `json:"free_kib"`
	BookedKiB int64           `json:"booked_kib"` // by the placements
	VCPUs     float64         `json:"vcpus"`      // wanted by the placements, a wide workload in equal parts
}

// Workload is one workload in a Status.
type Workload struct {
	ID               workload.ID    `json:"id"`
	Name             string         `json:"name"`
	Kind             workload.Kind  `json:"kind"`
	Class            workload.Class `json:"class"`
	Importance       int            `json:"importance"`
	CPUs             int            `json:"cpus"`            // vCPUs it is counted with
	Home             string         `json:"home"`            // node set by plan; "" without one
	CPUSet           string         `json:"cpu_set"`         // CPUs it may use now
	CPUSetPlanned    string         `json:"cpu_set_planned"` // by plan
	CPUUse           float64        `json:"cpu_use"`         // CPUs busy
	MemoryKiB        int64          `json:"memory_kib"`
	MemoryByNode     []NodeKiB      `json:"memory_by_node"`
	OnHome           *float64       `json:"on_home"`           // share of its memory on its home
	Locality         *float64       `json:"locality"`          // now; null when unknown
	LocalityExpected *float64       `json:"locality_expected"` // after the plan; null without one
	State            string         `json:"state"`
	Why              string         `json:"why"`
	Processes        []int          `json:"processes"`
	Steps            []plan.Step    `json:"steps"`          // what is left to do
	Move             *plan.Move     `json:"move,omitempty"` // page move in flight, or the newest that ended

	// What it was placed by, of those that are placed.
	SMT  workload.SMTPolicy `json:"smt,omitempty"`  // "" means prefer
	Idle string             `json:"idle,omitempty"` // CPUs held so that nobody runs beside it
	Near []string           `json:"near,omitempty"` // device names or PCI addresses
}

// NodeKiB is memory on one node.
type NodeKiB struct {
	Node topology.NodeID `json:"node"`
	KiB  int64           `json:"kib"`
}

// Explanation is why one workload is where it is: GET /v1/explain?id=ID.
type Explanation struct {
	Schema   string        `json:"schema"` // homenode-explain/1
	Mode     string        `json:"mode"`
	Workload Workload      `json:"workload"`
	Decision plan.Decision `json:"decision"`
	Journal  []plan.Entry  `json:"journal"` // what was changed and is not yet restored
	Move     *plan.Move    `json:"move,omitempty"`
	Events   []plan.Event  `json:"events"` // its newest

	// Balance is what balancing weighs of it now, and Balancing the whole in a line.
	Balance   []balance.Candidate `json:"balance,omitempty"`
	Balancing string              `json:"balancing,omitempty"`
}

// History is what happened: GET /v1/history?limit=N.
type History struct {
	Schema string       `json:"schema"` // homenode-history/1
	Events []plan.Event `json:"events"`
}

// Which names one workload, or all.
type Which struct {
	ID  workload.ID `json:"id,omitempty"`
	All bool        `json:"all,omitempty"`
}

// UndoResult says what was put back: POST /v1/undo.
type UndoResult struct {
	Schema   string        `json:"schema"` // homenode-undo/1
	Restored []plan.Entry  `json:"restored"`
	Gone     []plan.Entry  `json:"gone"`     // the thing no longer exists
	Deferred []UndoFailure `json:"deferred"` // others use it still; it goes back with them
	Failed   []UndoFailure `json:"failed"`
}

// UndoFailure is one setting that could not be put back, or whose heirs could not be
// looked for; it stays in the journal.
type UndoFailure struct {
	Entry plan.Entry `json:"entry"`
	Error string     `json:"error"`
}

// Want asks for a home: POST /v1/place.
type Want struct {
	Name      string         `json:"name"`
	Class     workload.Class `json:"class"`
	CPUs      int            `json:"cpus"`       // at least 1
	MemoryKiB int64          `json:"memory_kib"` // 0 when unknown
	Near      []string       `json:"near"`       // device names or PCI addresses
	// Of a guest: the page size of its memory, and its SMT policy; 0 and "" are ordinary
	// pages and prefer.
	HugePageKiB int64              `json:"huge_page_kib,omitempty"`
	SMT         workload.SMTPolicy `json:"smt,omitempty"`
	Process     workload.Process   `json:"process"` // who will live there; PID 0 asks without taking
}

// Home is the answer to a Want.
type Home struct {
	Schema   string           `json:"schema"` // homenode-home/1
	Nodes    topology.NodeSet `json:"nodes"`
	CPUs     topology.CPUSet  `json:"cpus"`
	Bound    bool             `json:"bound"`  // memory bound to Nodes; preferred there otherwise
	Ledger   bool             `json:"ledger"` // true when the daemon has written it down
	Why      string           `json:"why"`
	Decision plan.Decision    `json:"decision"`
	// Of dedicated work: the CPU of each vCPU. Memory is what is booked on each node.
	Pins   []topology.CPUID `json:"pins,omitempty"`
	Memory []NodeKiB        `json:"memory_by_node,omitempty"`
}
