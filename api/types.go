package api

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
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

// Room is what is left on each NUMA node for dedicated work: GET /v1/room?without=PREFIX.
type Room struct {
	Schema string         `json:"schema"` // homenode-room/1
	Mode   string         `json:"mode"`   // of the daemon: observe or enforce
	Host   *topology.Host `json:"host"`   // as the newest look saw it; null before the first
	Nodes  []NodeRoom     `json:"nodes"`  // by rising ID
}

// NodeRoom is what is left on one NUMA node.
type NodeRoom struct {
	Node      topology.NodeID `json:"node"`
	CPUs      int             `json:"cpus"`       // beside reserved CPUs, dedicated work, and what shared work needs
	MemoryKiB *int64          `json:"memory_kib"` // in ordinary pages; null when the node's memory is unknown
	HugePages []HugeRoom      `json:"huge_pages"` // by size
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
	BadRequest Code = "bad request"
	NotFound   Code = "not found"
	Forbidden  Code = "forbidden"
	NoRoom     Code = "no room"
	TooMany    Code = "too many requests"
	Fixed      Code = "fixed" // of a step, see plan.ErrFixed
	Gone       Code = "gone"  // of a step: what it is about does not exist
	Failed     Code = "failed"
)

// Error is a refusal with its reason in words.
type Error struct {
	Code Code   `json:"code"`
	Text string `json:"error"`
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
	Steps []plan.Step `json:"steps"`
	// Together: the steps build on one another, and nothing follows one that fails.
	Together bool `json:"together,omitempty"`
}

// Changed answers a Change.
type Changed struct {
	Schema string   `json:"schema"` // homenode-changed/1
	Errors []*Error `json:"errors"` // of each step; null when it was carried out
}

// Status is the whole picture: GET /v1/status.
type Status struct {
	Schema    string     `json:"schema"`    // homenode-status/2
	Version   string     `json:"version"`   // of the homenode that answers
	Mode      string     `json:"mode"`      // observe, enforce, or none when no daemon runs
	Held      bool       `json:"held"`      // true after undo --all until resume --all
	Time      time.Time  `json:"time"`      // of the look that this is of
	TickMs    float64    `json:"tick_ms"`   // what the last look and decision took
	Nodes     []Node     `json:"nodes"`     // by rising ID
	Workloads []Workload `json:"workloads"` // large enough to be placed, by rising ID
	Small     int        `json:"small"`     // workloads below the thresholds, not among Workloads
	// SmallWorkloads is those, for who asks for all (SmallSource).
	SmallWorkloads []SmallWorkload `json:"small_workloads,omitempty"`
	Problems       []string        `json:"problems"` // what could not be read or done, a sentence each

	Balance *balance.Report `json:"balance,omitempty"` // of the newest look; null before the first
	// Managers are other programs that place things on this host, and what is left to each.
	Managers []Manager `json:"managers"`
	// Pressure is that of the whole host, by resource; empty where the kernel has no PSI.
	Pressure []workload.Pressure `json:"pressure"`
	// Sources says by what locality and traffic are known here, best first, and why not
	// by what would be better.
	Sources []workload.SourceStatus `json:"sources"`
	// Devices is where the interrupts of NICs and NVMe drives go; empty when that is not looked at.
	Devices []Device `json:"devices"`
	// Partition is which CPUs are for dedicated work alone; null where all are for both.
	Partition *Partition `json:"partition,omitempty"`
	// Self is what the daemon itself holds; absent without a daemon.
	Self *Self `json:"self,omitempty"`
}

// SmallWorkload is a workload below the thresholds: it is left alone.
type SmallWorkload struct {
	ID        workload.ID   `json:"id"`         // as every command takes it
	Name      string        `json:"name"`       // of the program, unit or guest
	Kind      workload.Kind `json:"kind"`       // what it is
	CPUUse    float64       `json:"cpu_use"`    // CPUs busy
	MemoryKiB int64         `json:"memory_kib"` // resident
}

// Small is the workloads below the thresholds: GET /v1/small.
type Small struct {
	Schema    string          `json:"schema"` // homenode-small/1
	Workloads []SmallWorkload `json:"workloads"`
}

// Manager is another program that places things on this host.
type Manager struct {
	Name  string          `json:"name"`            // of the program
	Does  string          `json:"does"`            // in words
	Owns  string          `json:"owns,omitempty"`  // what homenode leaves to it, in words; "" when it works beside it
	CPUs  topology.CPUSet `json:"cpus,omitzero"`   // that it keeps for work of its own
	Names []string        `json:"names,omitempty"` // of the workloads that it is about
}

// Partition is where dedicated work ends and shared work begins. Only the text is asked.
type Partition struct {
	Partition plan.Partition `json:"partition"` // as it was set: any, shared, dedicated, CPUs or a share of the cores
	Split     bool           `json:"split"`     // there is one
	Dedicated string         `json:"dedicated"` // CPUs of dedicated work, when split
	// DryRun: nothing is changed, the answer is what would be.
	DryRun bool `json:"dry_run,omitempty"`
}

// Self is what a daemon holds, to see that it does not grow with what comes and goes.
type Self struct {
	Goroutines  int `json:"goroutines"`  // that run
	Descriptors int `json:"descriptors"` // open files and sockets
	Journal     int `json:"journal"`     // settings that undo would put back
	Lost        int `json:"lost"`        // calls into the kernel that were given up and have not come back
}

// Device is one NIC or NVMe drive in a Status.
type Device struct {
	Name       string          `json:"name"`                  // as the kernel has it, such as eth0
	Kind       string          `json:"kind"`                  // nic or nvme
	Node       topology.NodeID `json:"node"`                  // that it is on
	Interrupts int             `json:"interrupts"`            // in use
	AtHome     int             `json:"at_home"`               // … that go to its node's CPUs only, away from dedicated work
	Fixed      int             `json:"fixed"`                 // … that the kernel manages and refused to change
	Queues     int             `json:"queues,omitempty"`      // pairs in use; absent when that is not told
	MostQueues int             `json:"most_queues,omitempty"` // … that the hardware has
	Steps      int             `json:"steps"`                 // settings that differ from the plan
	State      string          `json:"state"`                 // in a word or two
	LeftTo     string          `json:"left_to,omitempty"`     // a manager
	Why        string          `json:"why,omitempty"`         // it is in that state; empty when there is no more to say
}

// Node is one NUMA node in a Status.
type Node struct {
	ID        topology.NodeID `json:"id"`         // of the kernel
	CPUs      string          `json:"cpus"`       // that are online, as a list
	MemoryKiB int64           `json:"memory_kib"` // in all
	FreeKiB   int64           `json:"free_kib"`   // free now
	BookedKiB int64           `json:"booked_kib"` // by the placements
	VCPUs     float64         `json:"vcpus"`      // wanted by the placements, a wide workload in equal parts
	// What was used over the last period, by whomever; null when unknown.
	CPUUse         *float64 `json:"cpu_use"`         // CPUs busy
	ReclaimableKiB *int64   `json:"reclaimable_kib"` // page cache and slab that the kernel gives back
	Bandwidth      *int64   `json:"bandwidth_mib_s"` // traffic of its memory
	// BandwidthFrom is imc or mbm; "" when unknown.
	BandwidthFrom workload.Source `json:"bandwidth_from,omitempty"`
	HugePages     []HugePool      `json:"huge_pages"` // reserved, by size
}

// HugePool is the huge pages of one size on one node.
type HugePool struct {
	SizeKiB int64  `json:"size_kib"` // of a page
	Total   int64  `json:"total"`    // number of pages, free and used
	Free    *int64 `json:"free"`     // null when unknown
}

// Workload is one workload in a Status.
type Workload struct {
	ID               workload.ID    `json:"id"`                // as every command takes it
	Name             string         `json:"name"`              // of the program, unit or guest
	Kind             workload.Kind  `json:"kind"`              // what it is
	Cgroup           string         `json:"cgroup,omitempty"`  // below the cgroup root; of a process the one it shares
	Class            workload.Class `json:"class"`             // what it is promised
	Importance       int            `json:"importance"`        // 0 to 100; more important work is placed first and moved last
	CPUs             int            `json:"cpus"`              // vCPUs it is counted with
	Home             string         `json:"home"`              // node set by plan; "" without one
	CPUSet           string         `json:"cpu_set"`           // CPUs it may use now
	CPUSetPlanned    string         `json:"cpu_set_planned"`   // by plan
	CPUUse           float64        `json:"cpu_use"`           // CPUs busy
	MemoryKiB        int64          `json:"memory_kib"`        // that it holds
	MemoryByNode     []NodeKiB      `json:"memory_by_node"`    // where that lies
	OnHome           *float64       `json:"on_home"`           // share of its memory on its home
	Locality         *float64       `json:"locality"`          // now, by the best source there is; null when unknown
	LocalityExpected *float64       `json:"locality_expected"` // after the plan; null without one
	// LocalityFrom is what Locality is known from: counters, mbm, numa-hints, residence.
	LocalityFrom workload.Source `json:"locality_from,omitempty"`
	Accesses     *float64        `json:"accesses_per_s"` // reads that memory answered; null when not counted

	State     string      `json:"state"`          // in a word or two
	Why       string      `json:"why"`            // it is in that state
	Processes []int       `json:"processes"`      // PIDs, rising
	Steps     []plan.Step `json:"steps"`          // what is left to do
	Move      *plan.Move  `json:"move,omitempty"` // page move in flight, or the newest that ended

	// What it was placed by, of those that are placed.
	SMT  workload.SMTPolicy `json:"smt,omitempty"`  // "" means prefer
	Idle string             `json:"idle,omitempty"` // CPUs held so that nobody runs beside it
	Near []string           `json:"near,omitempty"` // device names or PCI addresses

	// Links is the devices and helpers that it was found to use.
	Links []Link `json:"links,omitempty"`
}

// States of a Workload: stable, for programs and colours.
const (
	StateAtHome    = "at home"    // nothing is left to do
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
	Kind     workload.LinkKind `json:"kind"`            // netns, tap, vhost-user, block, vfio
	Name     string            `json:"name"`            // of the device or helper
	PID      int               `json:"pid,omitempty"`   // of a helper
	Nodes    string            `json:"nodes"`           // where it is; "" when unknown
	MiBs     *float64          `json:"mib_s,omitempty"` // through it; null when nothing counts that, or not twice yet
	Weight   float64           `json:"weight"`          // of its pull; 0 when it does not count
	Evidence string            `json:"evidence"`        // by which it was found
}

// NodeKiB is memory on one node.
type NodeKiB struct {
	Node topology.NodeID `json:"node"` // of the memory
	KiB  int64           `json:"kib"`  // on that node
}

// Explanation is why one workload is where it is: GET /v1/explain?id=ID, or a name (see
// workload.Find).
type Explanation struct {
	Schema   string        `json:"schema"`         // homenode-explain/2
	Mode     string        `json:"mode"`           // of the daemon: observe, enforce, or none when there is no daemon
	Workload Workload      `json:"workload"`       // as status has it
	Decision plan.Decision `json:"decision"`       // where it belongs, with reasons
	Journal  []plan.Entry  `json:"journal"`        // what was changed and is not yet restored
	Move     *plan.Move    `json:"move,omitempty"` // of its pages, the newest
	Events   []plan.Event  `json:"events"`         // its newest

	// Balance is what balancing weighs of it now, and Balancing the whole in a line.
	Balance   []balance.Candidate `json:"balance,omitempty"`
	Balancing string              `json:"balancing,omitempty"` // what balancing says of it

	// Device is set when a device was asked for; then of the above only Schema, Mode,
	// Journal and Events are.
	Device *DeviceDetail `json:"device,omitempty"`
}

// DeviceDetail is where the interrupts and queues of one device go, and why.
type DeviceDetail struct {
	Device
	ID      workload.ID `json:"id"`      // "device:NAME", as undo and resume take it
	PCI     string      `json:"pci"`     // of the function
	Allowed string      `json:"allowed"` // CPUs that its interrupts may go to
	Avoided string      `json:"avoided"` // CPUs of its node that are dedicated to a workload
	// Settings are its interrupts and queues.
	Settings []DeviceSetting `json:"settings"`
	Users    []DeviceUser    `json:"users"` // workloads that are near to it
}

// DeviceSetting is one interrupt or queue of a device.
type DeviceSetting struct {
	Path string `json:"path"`         // as in the journal
	Name string `json:"name"`         // of the interrupt's handler, or of the queue
	Now  string `json:"now"`          // CPUs, list format; of a number of queues that number
	To   string `json:"to,omitempty"` // by plan, where that differs
	Why  string `json:"why"`          // in a sentence
}

// DeviceUser is a workload that is near to a device, and how that is known.
type DeviceUser struct {
	Workload workload.ID `json:"workload"` // that uses it
	Home     string      `json:"home"`     // of that workload, as a list of nodes
	How      string      `json:"how"`      // it was found
}

// HistoryQuery is which events are asked for: GET /v1/history?limit=N&workload=NAME&kind=KIND&since=TIME&until=TIME,
// of which limit must be given; kind may be given again, and the times are as in RFC 3339.
type HistoryQuery struct {
	Limit        int              // the newest of those that fit; 0 is all
	Workload     workload.ID      // about it alone; an ID or a name (see workload.Find)
	Kinds        []plan.EventKind // none is all
	Since, Until time.Time        // of this time and later, before this time; zero is no bound
}

// Has reports whether an event is asked for. Workload must be an ID.
func (q *HistoryQuery) Has(ev *plan.Event) bool {
	return (q.Workload == "" || q.Workload == ev.Workload) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, ev.Kind)) &&
		!ev.Time.Before(q.Since) && (q.Until.IsZero() || ev.Time.Before(q.Until))
}

// History is what happened: the answer to a HistoryQuery.
type History struct {
	Schema   string       `json:"schema"`             // homenode-history/1
	Workload workload.ID  `json:"workload,omitempty"` // that was asked about
	Events   []plan.Event `json:"events"`             // rising by number
}

// Which names one workload, or all.
type Which struct {
	ID  workload.ID `json:"id,omitempty"` // or a name, see workload.Find
	All bool        `json:"all,omitempty"`
	// DryRun: nothing is changed; Restored is what would be put back.
	DryRun bool `json:"dry_run,omitempty"`
}

// UndoResult says what was put back: POST /v1/undo.
type UndoResult struct {
	Schema   string       `json:"schema"`             // homenode-undo/2
	Workload workload.ID  `json:"workload,omitempty"` // that is left alone now; absent for all
	Restored []plan.Entry `json:"restored"`           // settings that have their old values again
	// Unchanged stood as they were before anything was put back.
	Unchanged []plan.Entry  `json:"unchanged"`
	Gone      []plan.Entry  `json:"gone"`     // the thing no longer exists
	Theirs    []plan.Entry  `json:"theirs"`   // somebody else has set it since: it is not touched
	Deferred  []UndoFailure `json:"deferred"` // others use it still; it goes back with them
	Failed    []UndoFailure `json:"failed"`   // settings that could not be put back
	// Policies is the workloads of `homenode run` among Restored whose memory policy stays
	// until they end: the kernel lets only a process itself change its own.
	Policies []workload.ID `json:"policies,omitempty"`
	// Unheld: there is no journal; only what homenode run set was put back, and nothing is held.
	Unheld bool `json:"unheld,omitempty"`
}

// Resumed says what is managed again: POST /v1/resume.
type Resumed struct {
	Schema   string        `json:"schema"`             // homenode-resume/2
	All      bool          `json:"all"`                // everything was held
	Workload workload.ID   `json:"workload,omitempty"` // that is managed again; empty for all
	Held     []workload.ID `json:"held"`               // workloads that were held by themselves
}

// UndoFailure is one setting that could not be put back, or whose heirs could not be
// looked for; it stays in the journal.
type UndoFailure struct {
	Entry plan.Entry `json:"entry"` // of the journal
	Error string     `json:"error"` // why it could not be put back
}

// Want asks for a home: POST /v1/place.
type Want struct {
	Name      string         `json:"name"`
	Class     workload.Class `json:"class"`
	CPUs      int            `json:"cpus"`       // at least 1; 0 holds memory alone, on the one of Nodes
	MemoryKiB int64          `json:"memory_kib"` // 0 when unknown
	Near      []string       `json:"near"`       // device names or PCI addresses
	// Nodes it may use; empty is any.
	Nodes topology.NodeSet `json:"nodes,omitzero"`
	// Exact is where a person has put Process. It is taken as it is: nothing is searched,
	// nothing refused for lack of room, and the daemon leaves it there.
	Exact *Exact `json:"exact,omitempty"`
	// Of a guest: the page size of its memory, and its SMT policy; 0 and "" are ordinary
	// pages and prefer.
	HugePageKiB int64              `json:"huge_page_kib,omitempty"`
	SMT         workload.SMTPolicy `json:"smt,omitempty"`
	Process     workload.Process   `json:"process"` // who will live there; PID 0 asks without taking
	// ID is the workload that is about to come, where no Process is named. What it is told
	// is kept for it until it is seen, for HoldSeconds (3600 at most), and what it holds already
	// is its own.
	ID          workload.ID `json:"id,omitempty"`
	HoldSeconds int         `json:"hold_s,omitempty"`
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
	Schema string           `json:"schema"` // homenode-home/2
	Nodes  topology.NodeSet `json:"nodes"`  // of the home
	CPUs   topology.CPUSet  `json:"cpus"`   // that it may use
	Bound  bool             `json:"bound"`  // memory bound to Nodes; preferred there otherwise
	Ledger bool             `json:"ledger"` // true when the daemon has written it down
	Why    string           `json:"why"`    // this home, in a sentence
	// Unasked is why a daemon that runs was not asked or did not answer; "" when none runs.
	Unasked string `json:"unasked,omitempty"`
	// Unkept is why `homenode run` could not write down what it starts; it does not travel.
	Unkept   error         `json:"-"`
	Decision plan.Decision `json:"decision"` // with all reasons
	// Of dedicated work: the CPU of each vCPU. Memory is what is booked on each node.
	Pins   []topology.CPUID `json:"pins,omitempty"`
	Memory []NodeKiB        `json:"memory_by_node,omitempty"` // that is booked, by node
}

// MoveOrder tells a placed workload to move, or cancels its page move: POST /v1/move.
type MoveOrder struct {
	ID     workload.ID      `json:"id"` // or a name, see workload.Find
	To     topology.NodeSet `json:"to"` // nodes of the new home; one of them may do
	DryRun bool             `json:"dry_run,omitempty"`
	Cancel bool             `json:"cancel,omitempty"` // stop the page move, and leave the workload as it is
}

// MoveAnswer is what becomes of a MoveOrder. The loop carries it out; a Status shows
// how far it is.
type MoveAnswer struct {
	Schema   string           `json:"schema"`         // homenode-move/2
	Workload workload.ID      `json:"workload"`       // that is moved
	Outcome  plan.Outcome     `json:"outcome"`        // placed, kept (it is there) or cancelled
	From     topology.NodeSet `json:"from"`           // nodes of its home before
	FromCPUs topology.CPUSet  `json:"from_cpus"`      // that it might use before
	To       topology.NodeSet `json:"to"`             // nodes of its new home
	CPUs     topology.CPUSet  `json:"cpus"`           // that it may use there
	Decision plan.Decision    `json:"decision"`       // with reasons
	Steps    []plan.Step      `json:"steps"`          // of this workload, to be carried out
	Move     *plan.Move       `json:"move,omitempty"` // the page move that was cancelled, or that has ended already
}
