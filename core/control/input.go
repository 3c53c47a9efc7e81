package control

import (
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Input is one thing that happened: exactly one of the pointers is set.
type Input struct {
	At       time.Time `json:"at"`
	Started  *Started  `json:"started,omitempty"`  // the daemon
	Begun    *Begun    `json:"begun,omitempty"`    // a scan
	Scan     *Scan     `json:"scan,omitempty"`     // a scan has ended
	Survey   *Survey   `json:"survey,omitempty"`   // a survey has ended
	Request  *Request  `json:"request,omitempty"`  // somebody asks
	Result   *Result   `json:"result,omitempty"`   // an effect has ended
	Progress *Progress `json:"progress,omitempty"` // a page move came further
	Stopped  bool      `json:"stopped,omitempty"`  // the daemon is about to end
	// Withdrawn is the ID of a Request that nobody waits for any more. Nothing is begun for it.
	Withdrawn uint64 `json:"withdrawn,omitempty"`
}

// Started is the start of a daemon.
type Started struct {
	Version string        `json:"version"`
	Period  time.Duration `json:"period"`
}

// Begun is the start of a scan. What is placed after it need not be in it.
type Begun struct {
	Number uint64 `json:"number"`
}

// Scan is one look at the whole host, and what the sources say of it.
type Scan struct {
	Number uint64 `json:"number"` // from 1
	// Attention is what the scan was made with.
	Attention Attention         `json:"attention,omitzero"`
	Began     time.Time         `json:"began"`
	Snapshot  workload.Snapshot `json:"snapshot"`
	Claims    []Claimed         `json:"claims,omitempty"`
	Took      time.Duration     `json:"took,omitempty"`
	Failed    string            `json:"failed,omitempty"` // why nothing could be seen; the rest is empty then
}

// Claimed is what one source says.
type Claimed struct {
	Source   string             `json:"source"`
	Claims   []workload.Claim   `json:"claims,omitempty"` // rising by ID
	Problems []workload.Problem `json:"problems,omitempty"`
	Failed   string             `json:"failed,omitempty"` // it does not answer; the rest is what it said last
}

// SurveyKind names what is read beside the scans, each with a period of its own.
type SurveyKind string

// Surveys.
const (
	Managers   SurveyKind = "managers"   // other programs that place things
	Links      SurveyKind = "links"      // devices and helpers that workloads use
	Interrupts SurveyKind = "interrupts" // where interrupts and queues of devices go
)

// Survey is what a survey found.
type Survey struct {
	Kind     SurveyKind                      `json:"kind"`
	Failed   string                          `json:"failed,omitempty"`
	Lacks    string                          `json:"lacks,omitempty"` // why not all was found
	Managers []Manager                       `json:"managers,omitempty"`
	Links    map[workload.ID][]workload.Link `json:"links,omitempty"`
	Read     map[workload.ID]time.Time       `json:"read,omitempty"` // when the counters of Links were
	Devices  []irq.Device                    `json:"devices,omitempty"`
}

// Manager is another program that places things on this host.
type Manager struct {
	Name string `json:"name"`
	Does string `json:"does"`           // in words
	Owns string `json:"owns,omitempty"` // what is left to it, in words; "" when homenode works beside it
	// CPUs is what it keeps for work of its own.
	CPUs topology.CPUSet `json:"cpus,omitzero"`
	// What is left to it.
	Everything bool     `json:"everything,omitempty"` // all workloads
	Cgroups    []string `json:"cgroups,omitempty"`    // workloads below a cgroup with one of these names
	Interrupts bool     `json:"interrupts,omitempty"` // of devices
	// Names is the workloads that it is about, for status.
	Names []string `json:"names,omitempty"`
}

// Request is what somebody asks: exactly one of the pointers is set.
type Request struct {
	ID        uint64          `json:"id"` // for the Reply
	Place     *PlaceRequest   `json:"place,omitempty"`
	Move      *MoveRequest    `json:"move,omitempty"`
	Undo      *Which          `json:"undo,omitempty"`
	Resume    *Which          `json:"resume,omitempty"`
	Partition *plan.Partition `json:"partition,omitempty"`
	Share     *ShareOrder     `json:"share,omitempty"`
	Upgrade   *UpgradeOrder   `json:"upgrade,omitempty"`
	DryRun    bool            `json:"dry_run,omitempty"` // of Partition, Share and Upgrade
	Change    *Change         `json:"change,omitempty"`
	Trial     *TrialOrder     `json:"trial,omitempty"`
	// Lineage is what the kernel says of the process that Move, Undo or Resume names.
	Lineage workload.Lineage `json:"lineage,omitzero"`
	By      *plan.Asker      `json:"by,omitempty"` // nil: homenode itself, or not recorded
}

// Which names one workload, or all.
type Which struct {
	ID  workload.ID `json:"id,omitempty"` // or a name, see workload.Find
	All bool        `json:"all,omitempty"`
	// Sharing: of what sharing has set alone, and nothing is held afterwards.
	Sharing bool `json:"sharing,omitempty"`
	// Own: not of what a person ordered to be set (`host prepare`).
	Own bool `json:"own,omitempty"`
	// Only: of settings of this kind alone; "" is all.
	Only plan.SettingKind `json:"only,omitempty"`
	// Stop: the daemon ends and puts everything back; nothing is held afterwards.
	Stop bool `json:"stop,omitempty"`
	// DryRun: nothing is changed; the answer is what would be.
	DryRun bool `json:"dry_run,omitempty"`
}

// name is it in words.
func (w Which) name() string {
	switch {
	case w.All:
		return "everything"
	case w.Sharing:
		return "what sharing has set of " + string(w.ID)
	}
	return string(w.ID)
}

func (w Which) has(id workload.ID) bool {
	if w.All {
		return !w.Own || id != hostprep.ID
	}
	return id.Is(w.ID)
}

// PlaceRequest asks for a home for what is about to start.
type PlaceRequest struct {
	Spec workload.Spec `json:"spec"`
	// From is the party that it is for, and who made its wishes, where a source or a program of the system asks
	// for another; else it is who asks.
	From workload.Origin `json:"from,omitzero"`
	// Process will live there, and is a workload from then on; PID 0 for none.
	Process workload.Process `json:"process,omitzero"`
	// Had is the CPUs that Process may use before it is confined; empty when not known.
	Had topology.CPUSet `json:"had,omitzero"`
	// Ended is processes that hold something and are no more, as was found for this request.
	Ended []workload.Process `json:"ended,omitempty"`
	// Admitted is what `homenode run` has started without a daemon and lives, as was found
	// for this request.
	Admitted []Admission `json:"admitted,omitempty"`
	// Hold keeps what was answered, when no Process is named, until the workload is seen
	// but no longer than this; 0 asks without taking.
	Hold time.Duration `json:"hold,omitempty"`
	// Beside is what is pinned and no scan has seen.
	Beside []place.Pinned `json:"beside,omitempty"`
	// Names is what else patterns of the configuration may mean the work by: other names of it, and its
	// cgroups, which begin with a slash.
	Names []string `json:"names,omitempty"`
	// Release ends what is held for Spec.ID; nothing is placed.
	Release bool `json:"release,omitempty"`
	// Starts: it starts whatever the answer is, so that a home that is crowded is better than none.
	Starts bool `json:"starts,omitempty"`
	// Exact is where a person has put Process: nothing is searched, and it is left there.
	Exact *Exact `json:"exact,omitempty"`
}

// Exact is where a person wants work to be.
type Exact struct {
	CPUs  topology.CPUSet  `json:"cpus"`  // empty: no CPUs were named
	Nodes topology.NodeSet `json:"nodes"` // of its memory; empty: none were named
}

// MoveRequest gives a placed workload a home, or cancels its page move.
type MoveRequest struct {
	ID     workload.ID      `json:"id"` // or a name, see workload.Find
	To     topology.NodeSet `json:"to"`
	DryRun bool             `json:"dry_run,omitempty"`
	Cancel bool             `json:"cancel,omitempty"`
}

// Change asks for steps that no plan of a scan makes, as those that prepare a host. A person
// has ordered them: they are carried out in observe mode too, whatever is held.
type Change struct {
	Steps []plan.Step `json:"steps"`
	// Together: the steps build on one another, and nothing follows one that fails.
	Together bool `json:"together,omitempty"`
	// Release ends the hold of the workloads that the steps are about.
	Release bool `json:"release,omitempty"`
}

// Code is the kind of a refusal or failure.
type Code string

// Codes.
const (
	BadRequest Code = "bad request"
	NotFound   Code = "not found"
	Forbidden  Code = "forbidden"
	NoRoom     Code = "no room"
	Failed     Code = "failed"

	// Of effects.
	Gone      Code = "gone"       // what it is about no longer exists
	Fixed     Code = "fixed"      // the kernel lets nobody change it
	InUse     Code = "in use"     // by others; it goes back with them
	Foreign   Code = "foreign"    // somebody else has set it since
	Lacking   Code = "lacking"    // this kernel has no such file of a cgroup
	Unchanged Code = "unchanged"  // it stands as it was, and nothing had to be put back
	NoAnswer  Code = "no answer"  // the call did not come back
	NotFrozen Code = "not frozen" // a process did not stop for it, and may hold a lock for as long as it likes
	Cancelled Code = "cancelled"
)

// Failure is why something was refused or did not work; nil is none.
type Failure struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

func (f *Failure) Error() string { return f.Text }

// Reply answers a Request: Failed, or what was asked.
type Reply struct {
	ID        uint64        `json:"id"`
	Failed    *Failure      `json:"failed,omitempty"`
	Place     *Placed       `json:"place,omitempty"`
	Move      *Moved        `json:"move,omitempty"`
	Undo      *Undone       `json:"undo,omitempty"`
	Resumed   *Holds        `json:"resumed,omitempty"` // what was held until then
	Partition *PartitionNow `json:"partition,omitempty"`
	Share     *ShareOrder   `json:"share,omitempty"`
	Upgrade   *Upgraded     `json:"upgrade,omitempty"`
	Changed   []*Failure    `json:"changed,omitempty"` // of each step of a Change; nil took
	Trial     *TrialNow     `json:"trial,omitempty"`
	// Unwritten is why what was done could not be written down.
	Unwritten string `json:"unwritten,omitempty"`
}

// Placed answers a PlaceRequest, also one that is refused.
type Placed struct {
	Placement workload.Placement `json:"placement"`
	Decision  plan.Decision      `json:"decision"`
	Ledger    bool               `json:"ledger"` // it was written down
}

// Moved answers a MoveRequest.
type Moved struct {
	Workload workload.ID      `json:"workload"`
	Outcome  plan.Outcome     `json:"outcome"` // placed, kept, cancelled
	From     topology.NodeSet `json:"from"`
	FromCPUs topology.CPUSet  `json:"from_cpus"`
	To       topology.NodeSet `json:"to"`
	CPUs     topology.CPUSet  `json:"cpus"`
	Decision plan.Decision    `json:"decision"`
	Steps    []plan.Step      `json:"steps"`
	Move     *plan.Move       `json:"move,omitempty"`
}

// Undone answers an undo. What could not be put back stays in the journal.
type Undone struct {
	Workload workload.ID  `json:"workload,omitempty"` // whose; "" for all
	Restored []plan.Entry `json:"restored,omitempty"`
	Gone     []plan.Entry `json:"gone,omitempty"` // the thing no longer exists
	// Unchanged stood as they were before homenode, before anything was put back.
	Unchanged []plan.Entry `json:"unchanged,omitempty"`
	Foreign   []plan.Entry `json:"foreign,omitempty"`  // somebody else has set it since: it is theirs
	Deferred  []NotUndone  `json:"deferred,omitempty"` // others use it still; it goes back with them
	Failed    []NotUndone  `json:"failed,omitempty"`
	// Policies is those of `homenode run` whose affinity was put back: the memory policy that
	// each was started with stays.
	Policies []workload.ID `json:"policies,omitempty"`
}

// NotUndone is one setting that was not put back.
type NotUndone struct {
	Entry plan.Entry `json:"entry"`
	Error string     `json:"error"`
}

// PartitionNow is the partition as it holds.
type PartitionNow struct {
	Partition plan.Partition  `json:"partition"`
	Split     bool            `json:"split"`
	Dedicated topology.CPUSet `json:"dedicated"`
}

// Output is what follows from an Input. First Save must be on disk, then the effects
// begin and the replies go out.
type Output struct {
	Save    plan.Batch `json:"save"`
	Effects []Effect   `json:"effects,omitempty"`
	Replies []Reply    `json:"replies,omitempty"`
	// Of a scan: the plan it led to and why.
	Plan    *plan.Plan      `json:"plan,omitempty"`
	Balance *balance.Report `json:"balance,omitempty"`
}

// EffectKind is what is to be done.
type EffectKind string

// Effects. Each ends with one Result, but for those marked *.
const (
	EffectRead      EffectKind = "read"      // Driver.Changes(Step), and who has inherited
	EffectApply     EffectKind = "apply"     // Driver.Apply(Step); page moves tell their progress
	EffectRestore   EffectKind = "restore"   // of Entries, what is still ours
	EffectCheck     EffectKind = "check"     // Driver.Read of each of Entries
	EffectPresent   EffectKind = "present"   // which of Entries are about things that are gone
	EffectInherited EffectKind = "inherited" // who has inherited from Entries, among Among or all
	EffectCancel    EffectKind = "cancel"    // * stops the effect Of
	EffectSurvey    EffectKind = "survey"    // * ends with a Survey
	EffectChanged   EffectKind = "changed"   // * tells the observer that what Workload may use was changed
	EffectScheduler EffectKind = "scheduler" // tells the kernel's scheduler for batch work what holds, and asks how it is
	EffectMoved     EffectKind = "moved"     // * … that its memory was moved
)

// Effect is one thing to be done beside the loop.
type Effect struct {
	ID       uint64             `json:"id,omitempty"`
	Kind     EffectKind         `json:"kind"`
	Workload workload.ID        `json:"workload,omitempty"`
	Step     *plan.Step         `json:"step,omitempty"`
	Entries  []plan.Entry       `json:"entries,omitempty"`
	Among    []workload.Process `json:"among,omitempty"`
	// Journal, of a read and of a restore, is the entries that something may have inherited from. Thousands of reads
	// share it, and a record has it not: the state has it.
	Journal   []plan.Entry     `json:"-"`
	Scheduler *SchedulerOrders `json:"scheduler,omitempty"`
	Of        uint64           `json:"of,omitempty"`
	Survey    SurveyKind       `json:"survey,omitempty"`
}

// Result is how an effect ended.
type Result struct {
	ID        uint64               `json:"id"`
	Failed    *Failure             `json:"failed,omitempty"`
	Changes   []plan.Change        `json:"changes,omitempty"`   // of a read
	Inherited []plan.Inherited     `json:"inherited,omitempty"` // of a read or inherited
	Each      []*Failure           `json:"each,omitempty"`      // of a restore, check or present: one for each entry
	Settings  []plan.Setting       `json:"settings,omitempty"`  // of a check
	Scheduler *share.SchedulerSeen `json:"scheduler,omitempty"` // of a look at it
	// Standing: of an apply that failed, the step's settings as they are now; nil when
	// that could not be read.
	Standing []plan.Setting `json:"standing,omitempty"`
	// Frozen is how long an apply or a restore kept processes from running.
	Frozen time.Duration `json:"frozen,omitempty"`
}

// Progress is how far a page move has come.
type Progress struct {
	ID   uint64    `json:"id"` // of the effect
	Move plan.Move `json:"move"`
}
