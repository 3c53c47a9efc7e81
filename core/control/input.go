package control

import (
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
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

// Survey is what a survey found.
type Survey struct {
	Kind     SurveyKind                      `json:"kind"`
	Failed   string                          `json:"failed,omitempty"`
	Lacks    string                          `json:"lacks,omitempty"` // why not all was found
	Managers []Manager                       `json:"managers,omitempty"`
	Links    map[workload.ID][]workload.Link `json:"links,omitempty"`
	Read     map[workload.ID]time.Time       `json:"read,omitempty"` // when the counters of Links were
	Devices  []irq.Device                    `json:"devices,omitempty"`
	Noise    hostprep.Noise                  `json:"noise,omitzero"` // of Isolation
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

// Change asks for steps that no plan of a scan makes, as those that prepare a host. A person
// has ordered them: they are carried out in observe mode too, whatever is held.
type Change struct {
	Steps []plan.Step `json:"steps"`
	// Together: the steps build on one another, and nothing follows one that fails.
	Together bool `json:"together,omitempty"`
	// Release ends the hold of the workloads that the steps are about.
	Release bool `json:"release,omitempty"`
}

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
