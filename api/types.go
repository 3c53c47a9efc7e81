package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"net/http"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Backend answers. The daemon is one; so is the client, and the local look that
// stands in when no daemon runs.
type Backend interface {
	Status(ctx context.Context) (Status, error)
	Explain(ctx context.Context, id workload.ID) (Explanation, error)
	History(ctx context.Context, q HistoryQuery) (History, error)
	Undo(ctx context.Context, which Which) (UndoResult, error)
	Resume(ctx context.Context, which Which) (Resumed, error)
	Place(ctx context.Context, want Want) (Home, error)
	// Partition moves the line between dedicated and shared work.
	Partition(ctx context.Context, want Partition) (Partition, error)
	Move(ctx context.Context, order MoveOrder) (MoveAnswer, error)
	// Change carries out steps that somebody asks for, journalled like all others: an
	// error, or nil, for each.
	Change(ctx context.Context, c Change) ([]error, error)
}

// EventSource is a Backend that says what happens while it does.
type EventSource interface {
	// Events is the events after the one numbered since, then each as it comes,
	// until ctx ends.
	Events(ctx context.Context, since uint64) iter.Seq[plan.Event]
}

// SmallSource is a Backend that lists what is too small to be placed, too.
type SmallSource interface {
	Small(ctx context.Context) (Small, error)
}

// RoomSource is a Backend that says what is left on each node, too.
type RoomSource interface {
	// Room: what is held for work whose ID begins with without does not count as taken.
	Room(ctx context.Context, without string) (Room, error)
}

// MetricsSource is a Backend that has figures for Prometheus, and counts requests, too.
type MetricsSource interface {
	Metrics() http.Handler
	// Answered counts a request: path is that of an Endpoint, or other.
	Answered(path string, status int)
}

// Room is what is left on each NUMA node: GET /v1/room?without=PREFIX.
type Room struct {
	Schema string         `json:"schema"` // homenode-room/2
	Mode   string         `json:"mode"`   // of the daemon: observe or enforce
	Host   *topology.Host `json:"host"`   // as the newest look saw it; null before the first
	Nodes  []NodeRoom     `json:"nodes"`  // by rising ID
}

// NodeRoom is what is left on one NUMA node.
type NodeRoom struct {
	Node topology.NodeID `json:"node"` // node ID of the kernel
	CPUs int             `json:"cpus"` // beside reserved CPUs, dedicated work, and what shared work needs
	// SharedVCPUs is what shared work may still be given, by policy.overcommit. It and CPUs
	// are of the same CPUs where the host has no partition.
	SharedVCPUs float64    `json:"shared_vcpus"`
	MemoryKiB   *int64     `json:"memory_kib"` // in ordinary pages; null when the node's memory is unknown
	HugePages   []HugeRoom `json:"huge_pages"` // by size
	// BatchCPUs is the CPUs that batch work may keep busy now; absent while sharing is off.
	BatchCPUs *float64 `json:"batch_cpus,omitempty"`
	// BatchMemoryKiB is the memory that batch work may hold now, what it holds among it;
	// absent while that is not limited (share.memory).
	BatchMemoryKiB *int64 `json:"batch_memory_kib,omitempty"`
}

// UnmarshalJSON reads also homenode-room/1, which said offline for batch: a daemon may be older
// than who asks it.
func (n *NodeRoom) UnmarshalJSON(text []byte) error {
	type plain NodeRoom
	x := struct {
		*plain
		OfflineCPUs      *float64 `json:"offline_cpus"`
		OfflineMemoryKiB *int64   `json:"offline_memory_kib"`
	}{plain: (*plain)(n)}
	err := json.Unmarshal(text, &x)
	n.BatchCPUs, n.BatchMemoryKiB = cmp.Or(n.BatchCPUs, x.OfflineCPUs), cmp.Or(n.BatchMemoryKiB, x.OfflineMemoryKiB)
	return err
}

// HugeRoom is what is left in huge pages of one size.
type HugeRoom struct {
	SizeKiB int64 `json:"size_kib"` // of a page
	FreeKiB int64 `json:"free_kib"` // in all
}

// ErrNoDaemon is returned by Dial when nothing listens on the socket.
var ErrNoDaemon = errors.New("no daemon is running")

// ErrLate is returned when a daemon has not answered, or taken a connection, by the deadline of
// who asks.
var ErrLate = errors.New("the daemon has not answered in time")

// Code is the kind of a refusal.
type Code string

// Codes of refusals.
const (
	BadRequest   Code = "bad request"
	NotFound     Code = "not found"
	Forbidden    Code = "forbidden"
	Unauthorized Code = "unauthorized" // over TCP: without the token
	NoRoom       Code = "no room"
	TooMany      Code = "too many requests"
	Fixed        Code = "fixed" // of a step, see plan.ErrFixed
	Gone         Code = "gone"  // of a step: what it is about does not exist
	BadMethod    Code = "method not allowed"
	Failed       Code = "failed"
)

// Codes is all of them.
var Codes = []Code{BadRequest, Unauthorized, Forbidden, NotFound, BadMethod, NoRoom, Gone, TooMany, Fixed, Failed}

// Status is the HTTP status that goes with a code.
func (c Code) Status() int {
	switch c {
	case BadRequest:
		return 400
	case Unauthorized:
		return 401
	case Forbidden:
		return 403
	case NotFound:
		return 404
	case BadMethod:
		return 405
	case NoRoom:
		return 409
	case Gone:
		return 410
	case TooMany:
		return 429
	}
	return 500
}

// Error is a refusal with its reason in words.
type Error struct {
	Code Code   `json:"code"`  // kind of refusal
	Text string `json:"error"` // reason, in a sentence
}

func (e *Error) Error() string { return e.Text }

// Unwrap is what the code stands for in this program.
func (e *Error) Unwrap() error {
	switch e.Code {
	case Fixed:
		return plan.ErrFixed
	case Gone:
		return fs.ErrNotExist
	}
	return nil
}

// asError is an error as it goes over the wire.
func asError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Failed, err.Error()}
	}
	return e
}

// Change is steps that are all about one workload: POST /v1/change. A person has ordered
// them: they are carried out in observe mode too, whatever is held.
type Change struct {
	Steps []plan.Step `json:"steps"` // steps, in the order to carry them out
	// Together: the steps build on one another, and nothing follows one that fails.
	Together bool `json:"together,omitempty"`
}

// Changed answers a Change.
type Changed struct {
	Schema string   `json:"schema"`             // homenode-changed/1
	Errors []*Error `json:"errors" null:"list"` // of each step; null when it was carried out
}

// Status is the whole picture: GET /v1/status.
type Status struct {
	Schema  string `json:"schema"`  // homenode-status/3
	Version string `json:"version"` // version of the homenode that answers
	// mode of the daemon: observe, enforce, or none when no daemon runs
	Mode string `json:"mode"`
	// true from undo --all until resume --all: nothing is changed
	Held   bool      `json:"held"`
	Time   time.Time `json:"time"`    // when the host was looked at
	TickMs float64   `json:"tick_ms"` // time that the last look and decision took, ms
	Nodes  []Node    `json:"nodes"`   // NUMA nodes, by rising ID
	// workloads large enough to be placed, by rising ID
	Workloads []Workload `json:"workloads"`
	// number of workloads too small to be placed; they are not in workloads
	Small          int             `json:"small"`
	SmallWorkloads []SmallWorkload `json:"small_workloads,omitempty"` // workloads too small to be placed; with --all
	Problems       []string        `json:"problems"`                  // what could not be read or done, a sentence each

	// what balancing found at the newest look; absent before the first
	Balance *balance.Report `json:"balance,omitempty"`
	// other programs that place work on this host, and what homenode leaves to them
	Managers []Manager `json:"managers"`
	// PSI of the whole host, by resource; empty where the kernel has no PSI
	Pressure []workload.Pressure `json:"pressure"`
	// where locality and traffic are known from, best first, and why a better source is not used
	Sources []workload.SourceStatus `json:"sources"`
	// NICs and NVMe drives, and where their interrupts go; empty when that is not looked at
	Devices []Device `json:"devices"`
	// CPUs for dedicated work alone; absent where all CPUs are for both
	Partition *Partition `json:"partition,omitempty"`
	// CPUs that batch work may have; absent while sharing is off
	Sharing *Sharing `json:"sharing,omitempty"`
	// how local online work has been since the daemon started; absent without a daemon
	Trend *Trend `json:"trend,omitempty"`
	Trial *Trial `json:"trial,omitempty"` // trial under way; absent when none is
	// what the daemon itself holds; absent without a daemon
	Self *Self `json:"self,omitempty"`
	// last-level caches; absent where no node has several
	Caches *Caches `json:"caches,omitempty"`
}

// Caches is the last-level caches of a host on which some node has several, and what the kernel does about them.
type Caches struct {
	Count  int                      `json:"count"`  // number of last-level caches
	CPUs   int                      `json:"cpus"`   // most CPUs that share one
	Kernel topology.CacheAwareState `json:"kernel"` // cache-aware scheduling: on, off, built-in, none or unknown
	From   string                   `json:"from"`   // file or kernel version that says so; "" when nothing does
}

// SmallWorkload is a workload below the thresholds: it is left alone.
type SmallWorkload struct {
	ID        workload.ID   `json:"id"`         // ID, as every command takes it
	Name      string        `json:"name"`       // name of the program, unit or guest
	Kind      workload.Kind `json:"kind"`       // kind of workload
	CPUUse    float64       `json:"cpu_use"`    // CPUs that it keeps busy, such as 1.5
	MemoryKiB int64         `json:"memory_kib"` // resident memory, KiB
}

// Small is the workloads below the thresholds: GET /v1/small.
type Small struct {
	Schema    string          `json:"schema"`    // homenode-small/1
	Workloads []SmallWorkload `json:"workloads"` // workloads, by rising ID
}

// Manager is another program that places things on this host.
type Manager struct {
	Name string `json:"name"` // name of the program
	Does string `json:"does"` // what it does, in words
	// what homenode leaves to it, in words; absent when homenode works beside it
	Owns  string          `json:"owns,omitempty"`
	CPUs  topology.CPUSet `json:"cpus,omitzero"`   // CPUs that it keeps for work of its own
	Names []string        `json:"names,omitempty"` // names of the workloads that it places
}

// Partition is where dedicated work ends and shared work begins. A request needs its text only.
type Partition struct {
	// the partition as it was set: any, shared, dedicated, CPUs, or a share of the cores
	Partition plan.Partition `json:"partition"`
	Split     bool           `json:"split"`     // whether some CPUs are for dedicated work alone
	Dedicated string         `json:"dedicated"` // CPUs for dedicated work alone; empty without a split
	// with --dry-run: nothing was changed, and this is what would be
	DryRun bool `json:"dry_run,omitempty"`
}

// Self is what the daemon holds, to see whether it grows.
type Self struct {
	Goroutines  int `json:"goroutines"`  // goroutines that run
	Descriptors int `json:"descriptors"` // open files and sockets
	Journal     int `json:"journal"`     // settings that undo would restore
	Lost        int `json:"lost"`        // calls into the kernel that were given up and have not come back
}

// Device is one NIC or NVMe drive in a Status.
type Device struct {
	Name       string          `json:"name"`       // kernel name, such as eth0
	Kind       string          `json:"kind"`       // kind of device: nic or nvme
	Node       topology.NodeID `json:"node"`       // NUMA node that it is on; -1 unknown
	Interrupts int             `json:"interrupts"` // interrupts in use
	// interrupts that go only to CPUs of its node without dedicated work
	AtHome     int `json:"at_home"`
	Fixed      int `json:"fixed"`                 // interrupts whose CPUs the kernel sets itself
	Queues     int `json:"queues,omitempty"`      // queue pairs in use; absent when unknown
	MostQueues int `json:"most_queues,omitempty"` // queue pairs that the hardware has; absent when unknown
	Steps      int `json:"steps"`                 // settings that differ from the plan
	// state: as planned, would spread, left to manager, or a state of a workload
	State string `json:"state"`
	// name of the manager that sets its interrupts; absent without one
	LeftTo string `json:"left_to,omitempty"`
	// why it is in that state; absent when there is no more to say
	Why string `json:"why,omitempty"`
}

// Node is one NUMA node in a Status.
type Node struct {
	ID        topology.NodeID `json:"id"`         // node ID of the kernel
	CPUs      string          `json:"cpus"`       // online CPUs, in list format
	MemoryKiB int64           `json:"memory_kib"` // memory in all, KiB; -1 unknown
	FreeKiB   int64           `json:"free_kib"`   // free memory, KiB; -1 unknown
	BookedKiB int64           `json:"booked_kib"` // memory that placements have booked, KiB
	// vCPUs that placements have booked; a workload over several nodes counts on each in equal parts
	VCPUs float64 `json:"vcpus"`
	// What was used over the last period, by whomever; null when unknown.

	// CPUs busy in the last period, such as 3.5; null unknown
	CPUUse *float64 `json:"cpu_use"`
	// page cache and slab that the kernel can give back, KiB; null unknown
	ReclaimableKiB *int64 `json:"reclaimable_kib"`
	// traffic of its memory in the last period, MiB/s; null unknown
	Bandwidth *int64 `json:"bandwidth_mib_s"`
	// where that traffic is known from: imc or mbm; absent when unknown
	BandwidthFrom workload.Source `json:"bandwidth_from,omitempty"`
	HugePages     []HugePool      `json:"huge_pages"` // pools of huge pages, by size
}

// HugePool is the huge pages of one size on one node.
type HugePool struct {
	SizeKiB int64  `json:"size_kib"` // size of a page, KiB
	Total   int64  `json:"total"`    // number of pages, free and used
	Free    *int64 `json:"free"`     // number of free pages; null unknown
}

// Workload is one workload in a Status.
type Workload struct {
	ID   workload.ID   `json:"id"`   // ID, as every command takes it
	Name string        `json:"name"` // name of the program, unit or guest
	Kind workload.Kind `json:"kind"` // kind of workload
	// its cgroup, below the cgroup root; of a process the cgroup it shares
	Cgroup string `json:"cgroup,omitempty"`
	// user that it belongs to; absent for the system's
	UID int `json:"uid,omitempty"`
	// party responsible for it, such as user:1000 or namespace:prod; absent for the system
	Owner string         `json:"owner,omitempty"`
	Class workload.Class `json:"class"` // class: what it is promised
	// tier: how batch work goes beside it; absent while sharing is off
	Tier workload.Tier `json:"tier,omitempty"`
	// importance, 0 to 100: more important work is placed first and moved last
	Importance int `json:"importance"`
	CPUs       int `json:"cpus"` // vCPUs that it counts with
	// home nodes by plan, in list format; "" without a home
	Home string `json:"home"`
	// last-level caches of its home that it is kept in by plan, in list format; absent means all
	Caches        string    `json:"caches,omitempty"`
	CPUSet        string    `json:"cpu_set"`         // CPUs that it may use now, in list format
	CPUSetPlanned string    `json:"cpu_set_planned"` // CPUs that it may use by plan, in list format
	CPUUse        float64   `json:"cpu_use"`         // CPUs that it keeps busy, such as 1.5
	MemoryKiB     int64     `json:"memory_kib"`      // memory that it holds, KiB
	MemoryByNode  []NodeKiB `json:"memory_by_node"`  // memory that it holds, by node
	// memory that it holds, by type; absent when all is DRAM
	MemoryByType []TypeKiB `json:"memory_by_type,omitempty"`
	// the kernel's own memory for it; absent without a cgroup of its own
	Kernel *KernelMemory `json:"kernel_memory,omitempty"`
	// share of its memory on its home, or demoted from it, 0 to 1; null unknown
	OnHome *float64 `json:"on_home"`
	// where its CPU time was spent, by node; absent when unknown
	RanOn []NodeShare `json:"ran_on,omitempty"`
	// traffic of its memory, MiB/s; absent when no counter tells
	Bandwidth *int64 `json:"bandwidth_mib_s,omitempty"`
	// share of its memory accesses that are local now, 0 to 1; null unknown
	Locality *float64 `json:"locality"`
	// share of local accesses after the plan, 0 to 1; null without a plan
	LocalityExpected *float64 `json:"locality_expected"`
	// where locality is known from: counters, mbm, numa-hints or residence; absent when unknown
	LocalityFrom workload.Source `json:"locality_from,omitempty"`
	// reads a second that memory answered; null when not counted
	Accesses *float64 `json:"accesses_per_s"`

	// state: at home, would move, queued, moving, paused, failed, held, left alone, no room or no answer
	State     string      `json:"state"`
	Why       string      `json:"why"`            // why it is in that state; "" when there is no more to say
	Processes []int       `json:"processes"`      // PIDs, rising
	Steps     []plan.Step `json:"steps"`          // steps that are left to do
	Move      *plan.Move  `json:"move,omitempty"` // page move under way, or the newest that ended

	// What it was placed by, of those that are placed.

	// CPU of each vCPU by plan, in the order of the vCPUs; dedicated work only
	Pins []topology.CPUID   `json:"pins,omitempty"`
	SMT  workload.SMTPolicy `json:"smt,omitempty"`  // SMT policy that it was placed by; absent means prefer
	Idle string             `json:"idle,omitempty"` // CPUs that are kept idle beside it, in list format
	// what it is to be near to: devices by name or PCI address, else device=NAME, process=NAME or service=NAME, with
	// ,policy=required or ,policy=socket where it has to be
	Near []string `json:"near,omitempty"`

	Links  []Link  `json:"links,omitempty"`  // devices and helper processes that it was found to use
	Serves *Serves `json:"serves,omitempty"` // which workloads it works for; absent for one that is no helper
	Vhost  *Vhost  `json:"vhost,omitempty"`  // its vhost threads; absent for what has none
	Load   *Load   `json:"load,omitempty"`   // what kind of load it is; absent when unknown
}

// Vhost is the threads of the kernel that carry the packets and blocks of a guest. They are placed with
// its emulator.
type Vhost struct {
	Threads int     `json:"threads"` // number of threads
	CPUUse  float64 `json:"cpu_use"` // CPUs that they keep busy
	CPUs    string  `json:"cpus"`    // CPUs that they may use, in list format; "" unknown
	Nodes   string  `json:"nodes"`   // nodes that they were seen on last, in list format; "" unknown
}

// Load is what kind of load a workload is, and how important it seems by that.
type Load struct {
	Kind       load.Kind `json:"kind"`                 // kind: latency-bound, interrupt-heavy or steady
	Importance int       `json:"importance,omitempty"` // importance that is suggested, 0 to 100; absent for none
	Applied    bool      `json:"applied,omitempty"`    // whether it has that importance by the suggestion
	Why        string    `json:"why"`                  // what was seen, and what is suggested
}

// Serves is what a helper, such as a storage daemon, works for.
type Serves struct {
	Workloads []workload.ID `json:"workloads"` // IDs of the workloads that it works for
	Nodes     string        `json:"nodes"`     // nodes that all of them are on, in list format; "" for none
	Follows   bool          `json:"follows"`   // whether it is moved to them; else it stays
	Why       string        `json:"why"`       // why it is moved or stays
}

// States of a Workload: stable, for programs and colours.
const (
	StateAtHome    = "at home"    // nothing is left to do, but for what sharing changes from time to time
	StateWouldMove = "would move" // in observe mode: steps are left
	StateQueued    = "queued"     // steps are left, and will be carried out
	StateMoving    = "moving"     // Move says how far
	StatePaused    = "paused"     // its page move rests
	StateFailed    = "failed"
	StateHeld      = "held" // undone by hand, until resume
	StateLeftAlone = "left alone"
	StateNoRoom    = "no room"
	StateNoAnswer  = "no answer" // a call for it, or for its memory, did not come back; it is tried again later

	// Of devices.
	StateAsPlanned     = "as planned"
	StateWouldSpread   = "would spread"    // on the right node, and several on one CPU or one anywhere
	StateLeftToManager = "left to manager" // named in LeftTo
)

// Link is a device or a helper process that a workload was found to use.
type Link struct {
	// how it is linked: netns, tap, vhost-user, socket, block, gpu, vfio or net-disk
	Kind  workload.LinkKind `json:"kind"`
	Name  string            `json:"name"`          // name of the device or helper
	PID   int               `json:"pid,omitempty"` // PID of the helper; absent for a device
	Nodes string            `json:"nodes"`         // nodes that it is on, in list format; "" unknown
	// traffic through it, MiB/s; absent when not counted, or not twice yet
	MiBs     *float64 `json:"mib_s,omitempty"`
	Weight   float64  `json:"weight"`   // weight of its pull on the home; 0 when it does not count
	Evidence string   `json:"evidence"` // how it was found, in words
	// of a GPU: the NICs nearest to it, the nearest first, each with its relation as nvidia-smi topo -m names it
	Nearest []string `json:"nearest,omitempty"`
	// the helper is moved to the workload, so that it pulls nobody
	Follows bool `json:"follows,omitempty"`
	// of a helper: why it is moved or stays; of a device: what it weighs by, where that is not mib_s, or why it has no
	// weight
	Why string `json:"why,omitempty"`
}

// NodeShare is the part of something that falls to one node.
type NodeShare struct {
	Node  topology.NodeID `json:"node"`  // node ID of the kernel
	Share float64         `json:"share"` // share, 0 to 1
}

// NodeKiB is memory on one node.
type NodeKiB struct {
	Node topology.NodeID `json:"node"` // node ID of the kernel
	KiB  int64           `json:"kib"`  // memory on that node, KiB
}

// Explanation is why one workload is where it is: GET /v1/explain?id=ID, where ID may be any name of
// the workload (see workload.Find).
type Explanation struct {
	Schema   string        `json:"schema"`         // homenode-explain/3
	Mode     string        `json:"mode"`           // mode of the daemon: observe, enforce, or none when no daemon runs
	Workload Workload      `json:"workload"`       // the workload, as status has it
	Decision plan.Decision `json:"decision"`       // where it belongs, with reasons
	Journal  []plan.Entry  `json:"journal"`        // settings that were changed and are not yet restored
	Move     *plan.Move    `json:"move,omitempty"` // its newest page move
	Events   []plan.Event  `json:"events"`         // its newest events

	Balance   []balance.Candidate `json:"balance,omitempty"`   // changes of its home that balancing weighs now
	Balancing string              `json:"balancing,omitempty"` // what balancing says of it now, in a sentence

	// while sharing is on, in sentences: why batch work has its CPUs and whom it hurts, or how important work fares
	// beside it; absent for others
	Sharing []string `json:"sharing,omitempty"`

	// Device is the device, when a device was asked for; then only schema, mode, journal and
	// events are filled beside it.
	Device *DeviceDetail `json:"device,omitempty"`
}

// DeviceDetail is where the interrupts and queues of one device go, and why.
type DeviceDetail struct {
	Device
	ID       workload.ID     `json:"id"`       // ID of the form device:NAME, as undo and resume take it
	PCI      string          `json:"pci"`      // PCI address of the function
	Allowed  string          `json:"allowed"`  // CPUs that its interrupts may go to, in list format
	Avoided  string          `json:"avoided"`  // CPUs of its node that are dedicated to a workload, in list format
	Settings []DeviceSetting `json:"settings"` // its interrupts and queues
	Users    []DeviceUser    `json:"users"`    // workloads that are near to it
}

// DeviceSetting is one interrupt or queue of a device.
type DeviceSetting struct {
	Path string `json:"path"`         // path of the setting, as in the journal
	Name string `json:"name"`         // name of the interrupt's handler, or of the queue
	Now  string `json:"now"`          // value now: CPUs in list format, or a number of queues
	To   string `json:"to,omitempty"` // value by plan; absent where it is the same
	Why  string `json:"why"`          // why, in a sentence
}

// DeviceUser is a workload that is near to a device, and how that is known.
type DeviceUser struct {
	Workload workload.ID `json:"workload"` // ID of the workload that uses it
	Home     string      `json:"home"`     // home nodes of that workload, in list format
	How      string      `json:"how"`      // how it is known, in words
}

// HistoryQuery is which events are asked for: GET /v1/history?limit=N&workload=NAME&kind=KIND&since=TIME&until=TIME,
// of which limit must be given; kind may be given again, and the times are as in RFC 3339.
type HistoryQuery = plan.EventQuery

// History is what happened: GET /v1/history.
type History struct {
	Schema   string       `json:"schema"`             // homenode-history/2
	Workload workload.ID  `json:"workload,omitempty"` // ID of the workload that was asked about; absent for all
	Events   []plan.Event `json:"events"`             // events, rising by number
}

// Which names one workload, or all.
type Which struct {
	ID  workload.ID `json:"id,omitempty"`  // or a name, see workload.Find
	All bool        `json:"all,omitempty"` // everything, without an ID
	// DryRun: nothing is changed; Restored is what would be restored.
	DryRun bool `json:"dry_run,omitempty"`
}

// UndoResult is what was restored: POST /v1/undo.
type UndoResult struct {
	Schema    string       `json:"schema"`             // homenode-undo/2
	Workload  workload.ID  `json:"workload,omitempty"` // ID of the workload that is left alone now; absent for all
	Restored  []plan.Entry `json:"restored"`           // settings that have their old values again
	Unchanged []plan.Entry `json:"unchanged"`          // settings that already had their old values
	Gone      []plan.Entry `json:"gone"`               // settings of what no longer exists
	// settings that somebody else has changed since: they are not touched
	Theirs   []plan.Entry  `json:"theirs"`
	Deferred []UndoFailure `json:"deferred"` // settings that others still use: they are restored with those
	Failed   []UndoFailure `json:"failed"`   // settings that could not be restored
	// Policies is workloads of homenode run whose memory policy stays until they end: only a
	// process itself can change its own.
	Policies []workload.ID `json:"policies,omitempty"`
	// there was no journal: only what homenode run set was restored, and nothing is held
	Unheld bool `json:"unheld,omitempty"`
}

// Resumed is what is managed again: POST /v1/resume.
type Resumed struct {
	Schema   string        `json:"schema"`             // homenode-resume/2
	All      bool          `json:"all"`                // whether everything was held, and is managed again
	Workload workload.ID   `json:"workload,omitempty"` // ID of the workload that is managed again; absent for all
	Held     []workload.ID `json:"held"`               // IDs of the workloads that were held one by one
}

// UndoFailure is one setting that could not be restored, or whose heirs could not be
// looked for; it stays in the journal.
type UndoFailure struct {
	Entry plan.Entry `json:"entry"` // the entry of the journal
	Error string     `json:"error"` // why it could not be restored
}

// Want asks for a home: POST /v1/place.
type Want struct {
	Name  string         `json:"name"`  // name for people
	Class workload.Class `json:"class"` // class: what it is promised
	// who gives way on one CPU: online-strict, online, normal or batch, or 2 to -2; "" is by its class
	Tier      workload.Tier `json:"tier,omitempty"`
	CPUs      int           `json:"cpus"`       // at least 1; 0 holds memory alone, on the one of Nodes
	MemoryKiB int64         `json:"memory_kib"` // 0 when unknown
	// latency goal: most=5% of the time that it waits for a CPU, or of=baseline, optionally with window=30s; for root
	// alone
	SLO string `json:"slo,omitempty"`
	// what to be near to, each a device by name or PCI address, device=NAME, process=NAME or service=NAME;
	// ,policy=required after it refuses every other home
	Near []string `json:"near"`
	// Nodes it may use; empty is any.
	Nodes topology.NodeSet `json:"nodes,omitzero"`
	// Exact is where a person has put Process. It is taken as it is: nothing is searched,
	// nothing refused for lack of room, and the daemon leaves it there.
	Exact *Exact `json:"exact,omitempty"`
	// HugePageKiB is the page size of a guest's memory; 0 is ordinary pages.
	HugePageKiB int64              `json:"huge_page_kib,omitempty"`
	SMT         workload.SMTPolicy `json:"smt,omitempty"` // SMT policy of a guest; "" is prefer
	Process     workload.Process   `json:"process"`       // who will live there; PID 0 asks without taking
	// ID is the workload that is about to come, where no Process is named. What it is told
	// is kept for it until it is seen, for HoldSeconds (3600 at most), and what it holds already
	// is its own.
	ID          workload.ID `json:"id,omitempty"`
	HoldSeconds int         `json:"hold_s,omitempty"` // for how long that is kept, s; 3600 at most
	// Owner is the party that it is for, where a program of the system asks for another: "namespace:NAME" for the pods
	// of a namespace. The ceiling of that party covers it (docs/security.md). Of other users it is ignored: they ask
	// for themselves.
	Owner string `json:"owner,omitempty"`
	// Release ends what is held for ID: with nothing else set. Asked with the same wants again,
	// what is held stays as it is, for HoldSeconds from then on.
	Release bool `json:"release,omitempty"`
}

// Exact is where a person wants work to be, as numactl(8) takes it.
type Exact struct {
	CPUs  topology.CPUSet  `json:"cpus"`  // empty: as they are
	Nodes topology.NodeSet `json:"nodes"` // of its memory policy; empty: it names none
}

// Home is the answer to a Want.
type Home struct {
	Schema string           `json:"schema"` // homenode-home/3
	Nodes  topology.NodeSet `json:"nodes"`  // home nodes
	// last-level caches of the home that it is kept in; absent means all
	Caches topology.CacheSet `json:"caches,omitzero"`
	CPUs   topology.CPUSet   `json:"cpus"`   // CPUs that it may use
	Bound  bool              `json:"bound"`  // whether memory is bound to nodes; if not, they are preferred
	Ledger bool              `json:"ledger"` // whether the daemon has booked it
	Why    string            `json:"why"`    // why this home, in a sentence
	// why the daemon was not asked or did not answer; absent when it answered or none runs
	Unasked string `json:"unasked,omitempty"`
	// Unkept is why `homenode run` could not write down what it starts; it does not travel.
	Unkept   error         `json:"-"`
	Decision plan.Decision `json:"decision"` // the decision, with all reasons
	// CPU of each vCPU, in the order of the vCPUs; dedicated work only
	Pins   []topology.CPUID `json:"pins,omitempty"`
	Memory []NodeKiB        `json:"memory_by_node,omitempty"` // memory that is booked, by node
}

// MoveOrder tells a placed workload to move, or cancels its page move: POST /v1/move.
type MoveOrder struct {
	ID     workload.ID      `json:"id"`                // or a name, see workload.Find
	To     topology.NodeSet `json:"to"`                // nodes of the new home; one of them may do
	DryRun bool             `json:"dry_run,omitempty"` // nothing is changed, and the answer is what would be
	Cancel bool             `json:"cancel,omitempty"`  // stop the page move, and leave the workload as it is
}

// MoveAnswer is what becomes of an order to move: POST /v1/move. Status shows how far the move is.
type MoveAnswer struct {
	Schema   string      `json:"schema"`   // homenode-move/3
	Workload workload.ID `json:"workload"` // ID of the workload
	// what was decided: placed, kept (it is there already), refused or cancelled
	Outcome  plan.Outcome     `json:"outcome"`
	From     topology.NodeSet `json:"from"`           // home nodes before
	FromCPUs topology.CPUSet  `json:"from_cpus"`      // CPUs that it might use before
	To       topology.NodeSet `json:"to"`             // home nodes after
	CPUs     topology.CPUSet  `json:"cpus"`           // CPUs that it may use after
	Decision plan.Decision    `json:"decision"`       // the decision, with all reasons
	Steps    []plan.Step      `json:"steps"`          // steps of this workload that are carried out
	Move     *plan.Move       `json:"move,omitempty"` // page move that was cancelled or has already ended
}
