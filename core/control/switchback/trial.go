package switchback

import (
	"time"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Trial is a switchback experiment under way (`homenode trial`). Its program reads the metrics;
// the daemon switches the arms, so that everything it changes is in the journal. The program
// must renew the trial: when it does not, because it was killed, the daemon restores everything.
type Trial struct {
	Name   string      `json:"name"`
	Arm    trial.Arm   `json:"arm"`
	Names  []string    `json:"names,omitempty"`  // names or patterns of the workloads that it switches; empty is all
	Kernel []trial.Arm `json:"kernel,omitempty"` // arms with a setting of the kernel, which it switches, too
	Block  int         `json:"block"`            // from 1; 0 before the first
	Blocks int         `json:"blocks"`
	Began  time.Time   `json:"began"`
	Since  time.Time   `json:"since"` // of the arm
	Until  time.Time   `json:"until"` // it ends then, unless it is renewed
	Scan   uint64      `json:"scan"`  // the newest that had begun at the switch
	By     *plan.Asker `json:"by,omitempty"`
	Holds  work.Holds  `json:"holds"` // that the trial has added
	// values that the trial tried to set last; none while they are as found
	Written kernelValues  `json:"written,omitzero"`
	Stands  kernelValues  `json:"stands,omitzero"`  // what of that the kernel took, since the daemon started
	Ending  *words.Reason `json:"ending,omitempty"` // why it ends; its settings are being restored
}

// Order begins, switches, renews or ends a trial.
type Order struct {
	Name   string        `json:"name"`
	Arm    trial.Arm     `json:"arm,omitempty"`
	Begin  bool          `json:"begin,omitempty"` // else only one under way is renewed
	End    bool          `json:"end,omitempty"`
	Names  []string      `json:"names,omitempty"`
	Kernel []trial.Arm   `json:"kernel,omitempty"` // arms whose setting of the kernel is switched, too
	Lease  time.Duration `json:"lease,omitempty"`  // until it must be renewed
	Block  int           `json:"block,omitempty"`
	Blocks int           `json:"blocks,omitempty"`
}

// Over is the newest trial that was ended: its program must not begin it again.
type Over struct {
	Name string       `json:"name"`
	Why  words.Reason `json:"why"`
}

// Now answers an Order.
type Now struct {
	Trial   *Trial // nil when none is under way
	Settled bool   // everything that the arm changes is done
	Pending int    // settings, steps and page moves that are not done
}

// Bounds of a lease: a program that is stopped for a moment must not lose its trial, and one
// that is gone must not keep a host without homenode.
const (
	LeastLease = 5 * time.Second
	MostLease  = time.Hour
)

// Key of what is on disk of a trial.
const Key = "trial"

// Trials is the trial under way and how the newest one was ended. A checkpoint has both.
type Trials struct {
	Trial     *Trial `json:",omitempty"` // nil for none
	TrialOver *Over  `json:",omitempty"`
}

// Host is what trials are decided on.
type Host struct {
	Work    *work.Work
	Holds   *work.Holds // of the user, and those that a trial adds
	Enforce bool        // the configuration says so
	Scan    uint64      // the newest that has ended
	By      *plan.Asker // who asks; nil for homenode itself
	Loop
}

// Loop answers what trials ask of the rest of control, and takes what they have to report.
type Loop interface {
	// Matching returns the workloads that fit one of some names or patterns, rising by ID.
	Matching(names []string) []workload.ID
	// Find returns the one running workload that a name means.
	Find(name workload.ID) (workload.ID, *work.Failure)
	// Planned returns the newest plan, with the steps that are left to do.
	Planned() *plan.Plan
	// UndoAndHold restores the settings of workloads and has homenode leave them alone.
	UndoAndHold(work.Which)
	// SaveHolds writes what is held to disk.
	SaveHolds()
	// Unasked calls a function whose changes and lines of history are no order of a person.
	Unasked(func())
	// Event writes a line of history.
	Event(plan.Event, words.Code, ...any)
	// Order writes that the user asked for something, with their name as the first value.
	Order(workload.ID, words.Code, ...any)
	// Save writes a value to disk.
	Save(key string, value any)
}
