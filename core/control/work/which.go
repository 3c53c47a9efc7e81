package work

import (
	"slices"
	"strings"

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

// Undoing is an undo under way. It is on disk as long as it lasts: a daemon that starts
// in its midst goes on with it.
type Undoing struct {
	Which   Which
	Of      workload.ID     `json:",omitempty"` // of Entries
	Entries map[uint64]bool `json:",omitempty"` // by Seq: only these, which no concern desires; Which is empty
	Request uint64
	Running map[uint64][]plan.Entry // restores, by effect
	Tried   map[uint64]bool         // entries
	Result  Undone
}

// about reports whether an undo includes a workload.
func (u *Undoing) about(id workload.ID) bool {
	if u.Entries != nil {
		return u.Of == id
	}
	return u.Which.Has(id)
}

// has reports whether an entry belongs to an undo. A controller was turned on for the
// first workload that needed it and goes off with the last.
func (u *Undoing) has(e *plan.Entry) bool {
	if u.Entries[e.Seq] {
		return true
	}
	if u.Which.Only != "" {
		return u.Which.Has(e.Workload) && e.Kind == u.Which.Only
	}
	if u.Entries == nil && u.Which.Has(e.Workload) {
		return true
	}
	if !e.Kind.IsController() {
		return false
	}
	if u.Entries != nil && e.Kind == plan.CgroupControllers { // homes need it, too
		return false
	}
	below := func(r plan.Entry) bool { return Inside(r.Path, e.Path) }
	return slices.ContainsFunc(u.Result.Restored, below) || slices.ContainsFunc(u.Result.Unchanged, below)
}

// Inside reports whether a cgroup lies below another.
func Inside(path, group string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(group, "/")+"/") && path != group
}

func ofThreads(e *plan.Entry) bool { return e.Kind == plan.ThreadCPUs }
