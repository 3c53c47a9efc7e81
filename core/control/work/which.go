package work

import (
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

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
	// Stop: the daemon ends and restores everything; nothing is held afterwards.
	Stop bool `json:"stop,omitempty"`
	// DryRun: nothing is changed; the answer is what would be.
	DryRun bool `json:"dry_run,omitempty"`
}

// Name returns it in words.
func (w Which) Name() string {
	if w.All {
		return "everything"
	}
	return string(w.ID)
}

// Has reports whether a workload is meant.
func (w Which) Has(id workload.ID) bool {
	if w.All {
		return !w.Own || id != hostprep.ID
	}
	return id.Is(w.ID)
}

// Undone answers an undo. What could not be restored stays in the journal.
type Undone struct {
	Workload workload.ID  `json:"workload,omitempty"` // whose; "" for all
	Restored []plan.Entry `json:"restored,omitempty"`
	Gone     []plan.Entry `json:"gone,omitempty"` // the object no longer exists
	// Unchanged were as they were before homenode, before anything was restored.
	Unchanged []plan.Entry `json:"unchanged,omitempty"`
	Foreign   []plan.Entry `json:"foreign,omitempty"`  // another program has set it since: it is theirs
	Deferred  []NotUndone  `json:"deferred,omitempty"` // others use it still; it is restored with them
	Failed    []NotUndone  `json:"failed,omitempty"`
	// Policies is those of `homenode run` whose affinity was restored: the memory policy that
	// each was started with stays.
	Policies []workload.ID `json:"policies,omitempty"`
}

// NotUndone is one setting that was not restored.
type NotUndone struct {
	Entry plan.Entry `json:"entry"`
	Error string     `json:"error"`
}
