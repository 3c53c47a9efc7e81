package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// SettingKind is the kind of a thing on the host that has a value.
type SettingKind string

// Kinds of setting.
const (
	CgroupCPUs SettingKind = "cpuset.cpus" // Path is a cgroup
	CgroupMems SettingKind = "cpuset.mems" // Path is a cgroup
	// Path is a cgroup; enabled before a child can have a CPU set
	CgroupControllers SettingKind = "cgroup.subtree_control"
	// Path is a cgroup; this and the next are as cgroup-v2.rst has them
	CgroupIdle      SettingKind = "cpu.idle"
	CgroupWeight    SettingKind = "cpu.weight" // "idle" where cpu.idle is 1
	CgroupMax       SettingKind = "cpu.max"
	CgroupBurst     SettingKind = "cpu.max.burst" // WholeQuota where it is what cpu.max gives in a period
	MemoryLow       SettingKind = "memory.low"
	MemoryMin       SettingKind = "memory.min"
	MemoryHigh      SettingKind = "memory.high"
	SwapMax         SettingKind = "memory.swap.max"
	IOWeight        SettingKind = "io.weight" // that of devices without one of their own
	IOMax           SettingKind = "io.max"    // its lines with "; " between
	CgroupFreeze    SettingKind = "cgroup.freeze"
	CgroupPartition SettingKind = "cpuset.cpus.partition" // "member", "root" or "isolated"
	CgroupExclusive SettingKind = "cpuset.cpus.exclusive" // what partitions in it and below may take
	// Path is a cgroup: the scheduling policy of the threads in it and below; or "TID@START": of one that had another
	// than most
	TaskPolicy SettingKind = "sched.policy"
	// Path is "cpu": the scheduler for batch work that is in the kernel, by version; "" is none
	Scheduler SettingKind = "scheduler"
	// Path is the name of a group of resctrl: what it may have of caches and bandwidth; "" where it is not there
	CacheGroup SettingKind = "resctrl.schemata"
	// Path is a cgroup: the group of resctrl of the threads in it and below; "" is the default group
	CacheTasks       SettingKind = "resctrl.tasks"
	MemoryController SettingKind = "cgroup.subtree_control memory"
	IOController     SettingKind = "cgroup.subtree_control io"
	CPUController    SettingKind = "cgroup.subtree_control cpu" // as CgroupControllers, of the cpu controller
	// Path is "PID@START": the cgroup that `homenode run` put it into
	ProcessGroup SettingKind = "cgroup"
	Affinity     SettingKind = "affinity" // Path is "PID@START"; all threads of one process
	// Path is "PID@START": the CPU sets that threads of one process are divided among, "0-3;8-11"; what each had
	// before, as one set
	ThreadCPUs  SettingKind = "affinity.threads"
	IRQAffinity SettingKind = "irq"                // Path is "PCI/N": interrupt N of a PCI function
	RPSCPUs     SettingKind = "rps_cpus"           // Path is "PCI/DEV/rx-N": a receive queue
	XPSCPUs     SettingKind = "xps_cpus"           // Path is "PCI/DEV/tx-N": a transmit queue
	UnitCPUs    SettingKind = "AllowedCPUs"        // Path is a slice or scope of systemd
	UnitMems    SettingKind = "AllowedMemoryNodes" // Path is a scope of systemd
	HostFile    SettingKind = "file"               // Path is below "/", one of those host/prepare knows
	HostIRQ     SettingKind = "host-irq"           // Path is "N/NAME": an interrupt by number and handler
	// Path is "PCI/DEV": the queue pairs of a network device, a number
	QueueCount SettingKind = "queues"
	// Path is "NAME@ID" of a running guest: the CPUs of each of its threads
	GuestCPUs SettingKind = "guest.cpus"
	// Path is "NAME@ID" of a running guest: the nodes its memory may lie on
	GuestMems SettingKind = "guest.mems"
	// Path is the NAME of a guest: where its next start is; "" is nowhere
	GuestDefinition SettingKind = "guest.definition"
	// Path is the NAME of a guest: what its definition says it is to homenode; "" is nothing
	GuestMark SettingKind = "guest.mark"
	// Path is "NAME@ID/DEVICE" of a running guest: what the NIC or disk may do a second
	GuestLimits     SettingKind = "guest.limits"
	GuestLimitsNext SettingKind = "guest.limits.next" // Path is "NAME/DEVICE": the same in its definition
)

// CgroupFiles is the files of a cgroup that SetCgroup changes, with the value that each has
// where nobody has set it (cgroup-v2.rst).
var CgroupFiles = map[SettingKind]string{CgroupIdle: "0", CgroupWeight: "100", CgroupMax: "max 100000",
	CgroupFreeze: "0",
	CgroupBurst:  "0", MemoryLow: "0", MemoryMin: "0", MemoryHigh: "max", SwapMax: "max", IOWeight: "100", IOMax: "",
	CgroupPartition: "member", CgroupExclusive: ""}

// CgroupFileNeeds is the kernel that has each of CgroupFiles: its version, or its configuration.
var CgroupFileNeeds = map[SettingKind]string{
	CgroupIdle:      "Linux 5.15",
	CgroupWeight:    "CONFIG_FAIR_GROUP_SCHED",
	CgroupMax:       "CONFIG_CFS_BANDWIDTH",
	CgroupFreeze:    "Linux 5.2",
	CgroupBurst:     "Linux 5.14 with CONFIG_CFS_BANDWIDTH",
	MemoryLow:       "CONFIG_MEMCG",
	MemoryMin:       "CONFIG_MEMCG",
	MemoryHigh:      "CONFIG_MEMCG",
	SwapMax:         "CONFIG_SWAP",
	IOWeight:        "CONFIG_BLK_CGROUP_IOCOST, or BFQ as the scheduler of the devices",
	IOMax:           "CONFIG_BLK_DEV_THROTTLING",
	CgroupPartition: "CONFIG_CPUSETS",
	CgroupExclusive: "Linux 6.7",
}

// IsPartition reports whether a setting is of the partition that a cgroup is (concern/isolate).
func (k SettingKind) IsPartition() bool { return k == CgroupPartition || k == CgroupExclusive }

// WholeQuota is the value of CgroupBurst that is as much as cpu.max gives in a period, the most
// that the kernel takes (tg_set_cfs_bandwidth, kernel/sched/core.c).
const WholeQuota = "quota"

// PolicyExt is the value of TaskPolicy of threads that the sched_ext scheduler has: SCHED_EXT.
// (batch is SCHED_BATCH of sched(7), which threads may have had before.)
const PolicyExt = "ext"

// IsCgroupFile reports whether a setting is one of CgroupFiles.
func (k SettingKind) IsCgroupFile() bool {
	_, ok := CgroupFiles[k]
	return ok
}

// Turns reports whether homenode writes a kind of cgroup file now one way and later another, as
// it freezes and thaws. A value that another program wrote belongs to that program, also where it
// is the one that homenode wants just then: it would be overwritten later. Of the other kinds
// homenode wants one value for as long as it wants any.
func (k SettingKind) Turns() bool {
	switch k {
	case CgroupMax, CgroupBurst, CgroupFreeze, MemoryLow, MemoryMin, MemoryHigh, IOMax, CacheGroup:
		return true
	}
	return false
}

// Fills reports whether a setting stands for what is in a group, which others may join or leave.
func (k SettingKind) Fills() bool { return k == CacheTasks }

// Unset returns the value that a setting has where no program has chosen one; known is false for
// kinds of which any value may have been chosen.
func (k SettingKind) Unset() (value string, known bool) {
	if k == CacheGroup {
		return "", true
	}
	value, known = CgroupFiles[k]
	return value, known
}

// IsController reports whether a setting turns a controller on for the children of a cgroup.
func (k SettingKind) IsController() bool {
	return k == CgroupControllers || k == CPUController || k == MemoryController || k == IOController
}

// Setting is one thing of the host whose value a step changes, with its value.
// What it means and how it is written is the driver's business; to everyone
// else it is text that was read and can be restored.
type Setting struct {
	Kind  SettingKind `json:"kind"`
	Path  string      `json:"path"`
	Value string      `json:"value"`
	// Groups is the groups that the thing shares with what it starts (process group,
	// cgroup), by which a driver knows what has inherited its value once the thing itself
	// is gone; "" when nothing inherits.
	Groups string `json:"kin,omitempty"`
	// Object tells the thing from a later one under the same path, as the inode of a
	// cgroup; "" where the path does that.
	Object string `json:"object,omitempty"`
	// Ticks is when the value was read, in clock ticks since boot as /proc/PID/stat
	// counts start times: what began earlier has not inherited what was set after. 0
	// where nothing inherits.
	Ticks uint64 `json:"ticks,omitempty"`
}

// Change is a setting as it is and the value that a step would give it.
type Change struct {
	Setting
	Will string `json:"will"`
	// Threads is what threads had that the setting has come to be about since it was first changed,
	// as ";TID=CPUS" for each; its Old gets them, too: see Entry.Add.
	Threads string `json:"threads,omitempty"`
}

// Inherited is something that runs now, has inherited a value that a journal entry
// gave, and has no entry of its own.
type Inherited struct {
	Setting        // its own; Value is what it would have without homenode
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

// ErrForeign is wrapped when a setting is not restored because another program has set
// it since: see Entry.Ours.
var ErrForeign = errors.New("set by another program since")

// ErrNoAnswer is wrapped when a call did not come back in its time.
var ErrNoAnswer = errors.New("does not answer")

// ErrNotFrozen is wrapped when memory nodes were not changed because a process did not stop
// for it: it may hold the lock of its memory. It is an ErrNoAnswer.
var ErrNotFrozen = notFrozen{}

type notFrozen struct{}

func (notFrozen) Error() string { return "its processes did not freeze" }
func (notFrozen) Unwrap() error { return ErrNoAnswer }

// ErrInUse is wrapped by a driver that cannot yet put a setting back because
// others use it now: restoring is put off, not failed.
var ErrInUse = errors.New("still in use")

// ErrFixed is wrapped by a driver when the kernel does not let a setting be changed
// by anybody: nothing was changed, and trying again is in vain.
var ErrFixed = errors.New("the kernel keeps it as it is")

// FixedError is ErrFixed with what is kept and the kernel's answer.
type FixedError struct {
	What string
	Err  error
}

func (e *FixedError) Error() string {
	return fmt.Sprintf("%s is kept by the kernel, which refuses changes: %v", e.What, e.Err)
}

func (e *FixedError) Unwrap() error { return ErrFixed }

// UnsupportedError names a feature that is missing here and what would bring it.
type UnsupportedError struct {
	Feature string
	Need    string
}

// Unsupported is an UnsupportedError.
func Unsupported(feature, need string) error { return &UnsupportedError{feature, need} }

func (e *UnsupportedError) Error() string { return fmt.Sprintf("%s: needs %s", e.Feature, e.Need) }

// EntryState is how far a journalled change has come.
type EntryState string

// States of a journal entry. An entry is written as Intended, durably, before
// the change; a crash between the two leaves Intended, which undo treats like
// Applied: restoring a value that never changed does no harm.
const (
	Intended EntryState = "intended"
	Applied  EntryState = "applied"
	Failed   EntryState = "failed" // the change did not take; the old value still stands or was restored
	Restored EntryState = "restored"
	Gone     EntryState = "gone" // the thing no longer exists: nothing to restore
)

// Entry is one setting in the journal, the oldest value known: a second change
// of the same thing keeps old and renews new.
type Entry struct {
	Seq      uint64      `json:"seq"`      // number of the entry, rising
	Time     time.Time   `json:"time"`     // when it was first changed
	Workload workload.ID `json:"workload"` // ID of the workload that it is for
	Kind     SettingKind `json:"kind"`     // kind of setting
	Path     string      `json:"path"`     // path of the file or object that has it
	// process group and cgroup by which heirs of the value are found; absent when nothing inherits
	Groups string `json:"kin,omitempty"`
	Old    string `json:"old"` // value before homenode first changed it
	New    string `json:"new"` // value that homenode wrote last
	// values that homenode wrote before new, the newest last: threads and children may still have one
	Past []string `json:"past,omitempty"`
	// what tells the object from a later one under the same path, such as an inode
	Object string `json:"object,omitempty"`
	// when the old value was read, in clock ticks since boot; absent where nothing inherits
	Ticks uint64 `json:"ticks,omitempty"`
	// number of the entry that the value was inherited from, as long as homenode has not written it
	Of    uint64     `json:"of,omitempty"`
	State EntryState `json:"state"` // how far the change has come
}

// Ours reports whether a setting that reads as now is still homenode's: it has a value
// that homenode wrote, or that from before homenode, and is of the same thing.
// Otherwise somebody else has set it since, and it is theirs.
func (e *Entry) Ours(now Setting) bool {
	if e.Object != "" && now.Object != "" && e.Object != now.Object {
		return false
	}
	return now.Value == e.New || now.Value == e.Old || slices.Contains(e.Past, now.Value)
}

// Known is the value of the entry that same says is the one read, as the entry has it:
// some values read otherwise than they are written, as "0-1" for "0,1". It is now when
// none is, so that Ours is false of it.
func (e *Entry) Known(now string, same func(value string, old bool) bool) string {
	for _, v := range append([]string{e.New}, e.Past...) {
		if same(v, false) {
			return v
		}
	}
	if same(e.Old, true) {
		return e.Old
	}
	return now
}

// maxPast bounds Past. What has inherited a value that homenode wrote gets an entry of
// its own at the next look, and all threads of a process get each new value, so that
// more than the last few values is had by nobody.
const maxPast = 16

// Renew makes value what homenode writes next, and keeps what may still stand: where
// nothing inherits, only the last value that was applied and what was tried since.
func (e *Entry) Renew(w workload.ID, value string) {
	if e.State == Applied && e.Kind != Affinity && e.Kind != ThreadCPUs {
		e.Past = nil
	}
	if e.New != "" && e.New != value {
		past := slices.DeleteFunc(slices.Clone(e.Past), func(p string) bool { return p == e.New || p == value })
		e.Past = append(past, e.New)
		e.Past = e.Past[max(0, len(e.Past)-maxPast):]
	}
	e.Workload = w
	e.New = value
	e.State = Intended
	e.Of = 0
	if e.New == e.Old && len(e.Past) == 0 {
		e.Past = []string{e.Old} // else it reads as MadeAnew
	}
}

// Take marks a change as made: the setting has New. Where the kind turns, no earlier value stands
// any more, and whoever writes one of them is another program.
func (e *Entry) Take() {
	e.State = Applied
	if !e.Kind.Turns() {
		return
	}
	e.Past = nil
	if e.New == e.Old {
		e.Past = []string{e.Old} // else it reads as MadeAnew
	}
}

// Add adds to Old of an entry about threads what later ones had (Change.Threads), and drops those
// that have ended: lives tells.
func (e *Entry) Add(threads string, lives func(tid string) bool) {
	parts := strings.Split(e.Old, ";")
	e.Old = parts[0]
	for _, part := range parts[1:] {
		if tid, _, _ := strings.Cut(part, "="); lives(tid) && !strings.Contains(threads, ";"+tid+"=") {
			e.Old += ";" + part
		}
	}
	e.Old += threads
}

// MadeAnew is the entry of a setting that its device has made anew since homenode wrote
// it: nothing of homenode's stands, and what is read now is nobody's yet.
func (e *Entry) MadeAnew() Entry {
	anew := *e
	anew.New, anew.Past = e.Old, nil
	return anew
}

// IsMadeAnew reports whether an entry is one of MadeAnew.
func (e *Entry) IsMadeAnew() bool { return e.New == e.Old && len(e.Past) == 0 }

// EventKind groups the lines of the history.
type EventKind string

// Kinds of event.
const (
	EventDaemon   EventKind = "daemon"   // start, stop, mode
	EventPlan     EventKind = "plan"     // what was decided
	EventStep     EventKind = "step"     // what was changed, or failed to
	EventMove     EventKind = "move"     // page moves
	EventUndo     EventKind = "undo"     // what was restored
	EventWorkload EventKind = "workload" // went
	EventOrder    EventKind = "order"    // what a person asked for: undo, resume, move, a change of the host
	EventHost     EventKind = "host"     // CPU offline, node full, file unreadable
)

// EventKinds lists the kinds.
var EventKinds = []EventKind{EventDaemon, EventPlan, EventStep, EventMove, EventUndo, EventWorkload, EventOrder,
	EventHost}

// Event is one line of the history.
type Event struct {
	Seq  uint64    `json:"seq"`  // number of the event, rising
	Time time.Time `json:"time"` // when it happened
	Kind EventKind `json:"kind"` // kind of event
	// ID of the workload that it is about; absent when it is about the host or the daemon
	Workload workload.ID `json:"workload,omitempty"`
	// party responsible for the workload, or that asked; absent for the host's own
	Owner workload.Owner `json:"owner,omitempty"`
	Code  words.Code     `json:"code,omitempty"`  // code of the text; does not change between versions
	Text  string         `json:"text"`            // what happened, for people; may change between versions
	Error bool           `json:"error,omitempty"` // whether it is a failure
	Move  *Move          `json:"move,omitempty"`  // record of the page move that ended
	By    *Asker         `json:"by,omitempty"`    // who asked for it; absent when nobody did
	// how long the workload was frozen for it, s; absent when it was not
	Frozen float64 `json:"frozen,omitempty"`
}

// EventQuery is which events are asked for.
type EventQuery struct {
	Limit        int         // the newest of those that fit; 0 is all
	Workload     workload.ID // about it alone; an ID or, where the asker says so, a name (see workload.Find)
	Kinds        []EventKind // none is all
	Since, Until time.Time   // of this time and later, before this time; zero is no bound
}

// Has reports whether an event is asked for. Workload must be an ID.
func (q *EventQuery) Has(e *Event) bool {
	return (q.Workload == "" || q.Workload == e.Workload) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) &&
		!e.Time.Before(q.Since) && (q.Until.IsZero() || e.Time.Before(q.Until))
}

// Of is the events that are asked for, of all there are. Workload must be an ID.
func (q *EventQuery) Of(all []Event) []Event {
	out := []Event{}
	for i := range all {
		if q.Has(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out[len(out)-min(len(out), cmp.Or(q.Limit, len(out))):]
}

// Asker is who asked for something, as the kernel tells it.
type Asker struct {
	UID  int    `json:"uid"`            // UID of the process that asked
	User string `json:"user,omitempty"` // name of that user; absent when the host has none
	// user who logged in, when that is another one (loginuid): who used sudo or su
	Login string `json:"login,omitempty"`
	// party responsible for that process, such as user:1000, as far as the daemon found out; absent for the system
	Owner workload.Owner `json:"owner,omitempty"`
}

// Responsible returns the party that an order, and what it books, counts by.
func (a *Asker) Responsible() workload.Owner {
	if a.Owner != workload.SystemOwner {
		return a.Owner
	}
	return workload.UserOwner(a.UID)
}

// String is the name for people.
func (a *Asker) String() string {
	if a == nil {
		return "somebody"
	}
	who := a.User
	if who == "" {
		who = "user " + strconv.Itoa(a.UID)
	}
	if a.Login != "" {
		return a.Login + " as " + who
	}
	return who
}

// Move is the state of one paced page move, kept across restarts.
type Move struct {
	Workload  workload.ID `json:"workload"`             // ID of the workload whose pages move
	Home      string      `json:"home"`                 // home nodes, in list format
	Planned   int64       `json:"planned"`              // bytes off home when it began
	Moved     int64       `json:"moved"`                // bytes moved
	Refused   int64       `json:"refused"`              // bytes that the kernel would not move
	Why       string      `json:"why,omitempty"`        // why bytes were not moved, in words
	RefusedBy []Refusal   `json:"refused_by,omitempty"` // bytes that were not moved, by cause, the most first
	Started   time.Time   `json:"started"`              // when it began
	// time from its begin to its newest progress, or its end, s; it may have rested meanwhile
	Seconds float64 `json:"seconds"`
	// state: running, done, paused, cancelled, failed or interrupted
	State string `json:"state"`
	// share of local accesses before the move, 0 to 1; absent when unknown
	LocalityBefore *float64 `json:"locality_before,omitempty"`
	// share of local accesses after the move, 0 to 1; absent when unknown
	LocalityAfter *float64 `json:"locality_after,omitempty"`
}

// Left is how long a move still takes at the pace that it had; not known before it has moved
// anything.
func (m *Move) Left() (left time.Duration, known bool) {
	rest := m.Planned - m.Moved - m.Refused
	if rest <= 0 || m.Moved <= 0 || m.Seconds <= 0 {
		return 0, false
	}
	return time.Duration(float64(rest) * m.Seconds / float64(m.Moved) * float64(time.Second)), true
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
	Cause Cause  `json:"cause"` // why the kernel did not move them, as a code
	Bytes int64  `json:"bytes"` // bytes that were not moved
	Why   string `json:"why"`   // why, in words
}

// ControllerAbove reports whether an entry is of a controller in a cgroup above another: a step there
// turns it on when it is off.
func (e *Entry) ControllerAbove(cgroup string) bool {
	return e.Kind.IsController() && strings.HasPrefix(cgroup, strings.TrimSuffix(e.Path, "/")+"/")
}
