package work

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Loop answers what work asks of the rest of control, and takes what work has to report.
type Loop interface {
	// Observation returns what the newest scan saw of a workload, or nil.
	Observation(workload.ID) *workload.Observation
	// Observed returns what the observer calls the parts of a workload.
	Observed(workload.ID) []workload.ID
	// IsRoot reports whether a workload is the process tree that starts with a process.
	IsRoot(workload.ID, workload.Process) bool
	// LastScan returns the number of the newest scan that has ended.
	LastScan() uint64
	// Held reports whether the user has homenode leave a workload alone.
	Held(workload.ID) bool
	// Acts reports whether plans are carried out now.
	Acts() bool
	// Room returns the host, and the memory that no page move may fill on each node.
	Room() (*topology.Host, topology.KiB)
	// Planned returns the newest plan. Its steps are those that are left to do; work removes some.
	Planned() *plan.Plan
	// Had returns the CPUs that a process had before `homenode run` changed its affinity, and the
	// CPUs that it was given; ok is false where that is not known.
	Had(kind plan.SettingKind, path string) (had, given topology.CPUSet, ok bool)

	// Do has an effect done once what was saved is on disk.
	Do(Effect)
	// SaveEntry writes a journal entry to disk.
	SaveEntry(plan.Entry)
	// SaveMove writes the record of a page move to disk.
	SaveMove(plan.Move)
	// Save writes a value to disk.
	Save(key string, value any)
	// Event writes a line of history.
	Event(plan.Event, words.Code, ...any)
	// Once writes a line that each scan would repeat only when its text changes.
	Once(key string, e plan.Event, code words.Code, args ...any)

	// StepEnded takes up how a step went; nil is success.
	StepEnded(*plan.Step, *Failure)
	// PruneSoon has the next scan look for entries whose objects are gone.
	PruneSoon()
	// GaveValue notes a value that homenode gave a workload.
	GaveValue(id workload.ID, kind plan.SettingKind, value string)
	// TookAway notes that a workload no longer has the affinity that homenode gave it.
	TookAway(workload.ID)
	// RestoredAffinity notes that an affinity has its old value again, and reports whether
	// `homenode run` had set it.
	RestoredAffinity(*plan.Entry) (ofRun bool)
	// EntryRestored notes that an entry is out of the journal.
	EntryRestored(*plan.Entry)

	// Changed answers a request for steps: how each went.
	Changed(request uint64, each []*Failure)
	// Undone answers a request to undo.
	Undone(request uint64, u *Undone)
}
