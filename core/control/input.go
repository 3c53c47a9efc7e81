package control

import (
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
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
	Number   uint64            `json:"number"` // from 1
	Began    time.Time         `json:"began"`
	Snapshot workload.Snapshot `json:"snapshot"`
	Claims   []Claimed         `json:"claims,omitempty"`
	Took     time.Duration     `json:"took,omitempty"`
	Failed   string            `json:"failed,omitempty"` // why nothing could be seen; the rest is empty then
}

// SurveyKind names what is read beside the scans.
type SurveyKind = work.SurveyKind

// Surveys; package work describes them.
const (
	Managers   = work.Managers
	Links      = work.Links
	Interrupts = work.Interrupts
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
	// Sharing is what versions before 0.3 have on disk for what homenode restored by itself.
	Sharing bool `json:"sharing,omitempty"`
	// Own: not of what a person ordered to be set (`host prepare`).
	Own bool `json:"own,omitempty"`
	// Only: settings of this kind alone; tasks under way go on, and nothing is held afterwards. "" is all.
	Only plan.SettingKind `json:"only,omitempty"`
	// Stop: the daemon ends and puts everything back; nothing is held afterwards.
	Stop bool `json:"stop,omitempty"`
	// DryRun: nothing is changed; the answer is what would be.
	DryRun bool `json:"dry_run,omitempty"`
}

// name is it in words.
func (w Which) name() string {
	if w.All {
		return "everything"
	}
	return string(w.ID)
}

func (w Which) has(id workload.ID) bool {
	if w.All {
		return !w.Own || id != hostprep.ID
	}
	return id.Is(w.ID)
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

// What a step or a request came to.
type (
	Code    = work.Code
	Failure = work.Failure
)

// Codes of refusals and failures; package work describes them.
const (
	BadRequest = work.BadRequest
	NotFound   = work.NotFound
	Forbidden  = work.Forbidden
	NoRoom     = work.NoRoom
	Failed     = work.Failed
	Gone       = work.Gone
	Fixed      = work.Fixed
	InUse      = work.InUse
	Foreign    = work.Foreign
	Lacking    = work.Lacking
	Unchanged  = work.Unchanged
	NoAnswer   = work.NoAnswer
	NotFrozen  = work.NotFrozen
	Cancelled  = work.Cancelled
)

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

// What is done beside the loop, and how it ended.
type (
	EffectKind = work.EffectKind
	Effect     = work.Effect
	Result     = work.Result
)

// Kinds of effect; package work describes them.
const (
	EffectRead      = work.EffectRead
	EffectApply     = work.EffectApply
	EffectRestore   = work.EffectRestore
	EffectCheck     = work.EffectCheck
	EffectPresent   = work.EffectPresent
	EffectInherited = work.EffectInherited
	EffectCancel    = work.EffectCancel
	EffectSurvey    = work.EffectSurvey
	EffectChanged   = work.EffectChanged
	EffectScheduler = work.EffectScheduler
	EffectMoved     = work.EffectMoved
)

// Progress is how far a page move has come.
type Progress struct {
	ID   uint64    `json:"id"` // of the effect
	Move plan.Move `json:"move"`
}
