package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// SettingKind is the kind of a thing on the host that has a value.
type SettingKind string

// Kinds of setting.
const (
	CgroupCPUs        SettingKind = "cpuset.cpus"            // Path is a cgroup
	CgroupMems        SettingKind = "cpuset.mems"            // Path is a cgroup
	CgroupControllers SettingKind = "cgroup.subtree_control" // Path is a cgroup; enabled before a child can have a CPU set
	Affinity          SettingKind = "affinity"               // Path is "PID@START"; all threads of one process
	IRQAffinity       SettingKind = "irq"                    // Path is "PCI/N": interrupt N of a PCI function
	RPSCPUs           SettingKind = "rps_cpus"               // Path is "PCI/DEV/rx-N": a receive queue
	XPSCPUs           SettingKind = "xps_cpus"               // Path is "PCI/DEV/tx-N": a transmit queue
	GuestCPUs         SettingKind = "guest.cpus"             // Path is "NAME@ID" of a running guest: the CPUs of each of its threads
	GuestMems         SettingKind = "guest.mems"             // Path is "NAME@ID" of a running guest: the nodes its memory may lie on
	GuestDefinition   SettingKind = "guest.definition"       // Path is the NAME of a guest: where its next start is; "" is nowhere
)

// Setting is one thing of the host whose value a step changes, with its value.
// What it means and how it is written is the driver's business; to everyone
// else it is text that was read and can be put back.
type Setting struct {
	Kind  SettingKind `json:"kind"`
	Path  string      `json:"path"`
	Value string      `json:"value"`
	// Kin is what else was read of the thing, by which a driver knows what has
	// inherited its value once the thing itself is gone; "" when nothing inherits.
	Kin string `json:"kin,omitempty"`
}

// Heir is something that runs now, has inherited a value that a journal entry
// gave, and has no entry of its own.
type Heir struct {
	Setting        // of the heir; Value is what it would have without homenode
	Has     string // what it has now
	Of      uint64 // Seq of the entry that it inherits from
}

// ProcessPath names a process in a setting: "PID@START".
func ProcessPath(p workload.Process) string { return fmt.Sprintf("%d@%d", p.PID, p.Start) }

// ParseProcessPath reads what ProcessPath wrote.
func ParseProcessPath(path string) (workload.Process, error) {
	pid, start, _ := strings.Cut(path, "@")
	var p workload.Process
	var err error
	if p.PID, err = strconv.Atoi(pid); err == nil {
		p.Start, err = strconv.ParseUint(start, 10, 64)
	}
	if err != nil || p.PID <= 0 || p.Start == 0 {
		return workload.Process{}, fmt.Errorf("%q is not PID@START", path)
	}
	return p, nil
}

// ErrInUse is wrapped by a driver that cannot yet put a setting back because
// others use it now: restoring is put off, not failed.
var ErrInUse = errors.New("still in use")

// ErrFixed is wrapped by a driver when the kernel does not let a setting be changed
// by anybody: nothing was changed, and trying again is in vain.
var ErrFixed = errors.New("the kernel keeps it as it is")

// EntryState is how far a journalled change has come.
type EntryState string

// States of a journal entry. An entry is written as Intended, durably, before
// the change; a crash between the two leaves Intended, which undo treats like
// Applied: restoring a value that never changed does no harm.
const (
	Intended EntryState = "intended"
	Applied  EntryState = "applied"
	Failed   EntryState = "failed" // the change did not take; the old value still stands or was put back
	Restored EntryState = "restored"
	Gone     EntryState = "gone" // the thing no longer exists: nothing to restore
)

// Entry is one setting in the journal, the oldest value known: a second change
// of the same thing keeps Old and renews New.
type Entry struct {
	Seq      uint64      `json:"seq"`
	Time     time.Time   `json:"time"`
	Workload workload.ID `json:"workload"`
	Kind     SettingKind `json:"kind"`
	Path     string      `json:"path"`
	Kin      string      `json:"kin,omitempty"` // of the Setting
	Old      string      `json:"old"`           // before homenode first touched it
	New      string      `json:"new"`           // what homenode wrote last
	// Past is what homenode wrote before New: threads and children may still have
	// it by inheritance, and a crash can come before New was written.
	Past  []string   `json:"past,omitempty"`
	State EntryState `json:"state"`
}

// Renew makes value what homenode writes next, and keeps what it wrote before.
func (e *Entry) Renew(w workload.ID, value string) {
	if e.New != "" && e.New != value && !slices.Contains(e.Past, e.New) {
		e.Past = append(e.Past, e.New)
	}
	e.Workload, e.New, e.State = w, value, Intended
}

// EventKind groups the lines of the history.
type EventKind string

// Kinds of event.
const (
	EventDaemon   EventKind = "daemon"   // start, stop, mode
	EventPlan     EventKind = "plan"     // what was decided
	EventStep     EventKind = "step"     // what was changed, or failed to
	EventMove     EventKind = "move"     // page moves
	EventUndo     EventKind = "undo"     // what was put back
	EventWorkload EventKind = "workload" // came, went
	EventHost     EventKind = "host"     // CPU offline, node full, file unreadable
)

// Event is one line of the history.
type Event struct {
	Seq      uint64      `json:"seq"`
	Time     time.Time   `json:"time"`
	Kind     EventKind   `json:"kind"`
	Workload workload.ID `json:"workload,omitempty"`
	Text     string      `json:"text"`
	Error    bool        `json:"error,omitempty"`
	Move     *Move       `json:"move,omitempty"` // of the end of a page move: its record
}

// Move is the state of one paced page move, kept across restarts.
type Move struct {
	Workload workload.ID `json:"workload"`
	Home     string      `json:"home"`          // list format
	Planned  int64       `json:"planned"`       // bytes off home when it began
	Moved    int64       `json:"moved"`         // bytes
	Refused  int64       `json:"refused"`       // bytes the kernel would not move
	Why      string      `json:"why,omitempty"` // why bytes were refused, by reason
	// RefusedBy is Refused by cause, the most first.
	RefusedBy []Refusal `json:"refused_by,omitempty"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"`
	State     string    `json:"state"` // running, done, paused, cancelled, failed, interrupted
	// LocalityBefore is that of the look the move was begun on, LocalityAfter that of the
	// first look begun after its end; null when unknown.
	LocalityBefore *float64 `json:"locality_before,omitempty"`
	LocalityAfter  *float64 `json:"locality_after,omitempty"`
}

// Cause names why memory is not moved; it is stable, for programs.
type Cause string

// Causes.
const (
	Busy       Cause = "busy"         // the kernel was at work on it, or holds it, in every try
	Pinned     Cause = "pinned"       // held for a device: VFIO, RDMA, io_uring
	Locked     Cause = "locked"       // mlocked, and busy
	SharedMem  Cause = "shared"       // with processes outside the workload
	Special    Cause = "special"      // device memory or a special mapping
	Denied     Cause = "denied"       // not permitted
	NoHugePage Cause = "no-huge-page" // the node has no free huge page of the size
	NodeFull   Cause = "node-full"
	OtherCause Cause = "other"
)

// Lasts reports whether trying again soon is in vain.
func (c Cause) Lasts() bool {
	return c == Pinned || c == SharedMem || c == Special || c == Denied
}

// Refusal is memory that was not moved, for one reason.
type Refusal struct {
	Cause Cause  `json:"cause"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"` // in words
}
