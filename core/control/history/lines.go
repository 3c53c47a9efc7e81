package history

import (
	"maps"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Lines is what is remembered of the lines written. A checkpoint has it.
type Lines struct {
	Events   uint64                         // numbered so far
	Left     map[workload.ID]workload.Owner // owners of what is gone (see Leaves)
	Told     map[string]string              // what was said last of what would repeat
	Balanced string                         // what was last said of balancing
	Swung    time.Time                      // when it was last said that a node is, or no longer is, short
}

// New returns the memory of a daemon that starts: events is the number of the newest line on disk.
func New(events uint64) Lines { return Lines{Events: events, Told: map[string]string{}} }

// Host is what lines are about, and where they go.
type Host struct {
	At    time.Time   // of the newest input
	By    *plan.Asker // who asked for it; nil for homenode itself
	Scene *scene.Scene
	Work  *work.Work
	Save  *plan.Batch // takes the lines
}

// Seen is what one scan showed, and what was decided on it.
type Seen struct {
	Snapshot *workload.Snapshot
	Plan     *plan.Plan
	Subjects []*place.Subject // rising by ID
	Lives    []workload.Life  // of the observations
	Halted   words.Reason
}

// Event writes one line of history.
func (l *Lines) Event(h *Host, e plan.Event, code words.Code, args ...any) {
	l.Events++
	e.Seq = l.Events
	e.Time = h.At
	e.Code = code
	e.By = h.By
	e.Owner = l.ownerOf(h, &e)
	// joined errors have several lines
	e.Text = strings.Join(strings.Fields(words.Because(code, args...).String()), " ")
	h.Save.Events = append(h.Save.Events, e)
}

// ownerOf is who is responsible for what an event is about: of an order who gave it, else of
// the workload. The user of a service is one here, too: its orders must not push out root's.
func (l *Lines) ownerOf(h *Host, e *plan.Event) workload.Owner {
	if e.Kind == plan.EventOrder && e.By != nil {
		return e.By.Responsible().Holder(e.By.UID)
	}
	if o := h.Scene.Observation(e.Workload); o != nil {
		return o.Responsible()
	}
	if c := h.Scene.Claims[e.Workload]; c != nil { // a scan is about to show it
		return c.Owner
	}
	return l.Left[e.Workload]
}

// Leaves notes whose a workload was that is gone, as long as something of it is in the journal or
// under way: events about that are to count as its owner's.
func (l *Lines) Leaves(o *workload.Observation) {
	if owner := o.Responsible(); owner != workload.SystemOwner {
		if l.Left == nil { // as in checkpoints of an older version
			l.Left = map[workload.ID]workload.Owner{}
		}
		l.Left[o.ID] = owner
	}
}

// ForgetLeft forgets owners of what is neither there nor in the journal nor under way.
func (l *Lines) ForgetLeft(sc *scene.Scene, w *work.Work) {
	if len(l.Left) == 0 {
		return
	}
	remains := map[workload.ID]bool{}
	for _, e := range w.Journal.All() {
		remains[e.Workload] = true
	}
	for _, u := range w.Undoing {
		for _, entries := range u.Running {
			for i := range entries {
				remains[entries[i].Workload] = true
			}
		}
	}
	maps.DeleteFunc(l.Left, func(id workload.ID, _ workload.Owner) bool {
		return sc.Observation(id) != nil || (!remains[id] && w.Tasks[id] == nil)
	})
}

// Order records an order, with the name of its author as first value.
func (l *Lines) Order(h *Host, id workload.ID, code words.Code, args ...any) {
	l.Event(h, plan.Event{Kind: plan.EventOrder, Workload: id}, code, append([]any{h.By.String()}, args...)...)
}

// Once writes an event that would repeat at every scan only when its text changes.
func (l *Lines) Once(h *Host, key string, e plan.Event, code words.Code, args ...any) {
	text := words.Because(code, args...).String()
	if l.Told[key] != text {
		l.Told[key] = text
		l.Event(h, e, code, args...)
	}
}

// Over forgets a line of Once, so that its next occurrence is news.
func (l *Lines) Over(key string) { delete(l.Told, key) }

// Forget forgets what was said of workloads that are gone, or that is no longer true.
func (l *Lines) Forget(sc *scene.Scene, w *work.Work, of []string) {
	maps.DeleteFunc(l.Told, func(key, _ string) bool {
		for _, prefix := range of {
			if id, ok := strings.CutPrefix(key, prefix); ok {
				return sc.Observation(workload.ID(id)) == nil
			}
		}
		id, narrowed := strings.CutPrefix(key, work.ToldNarrowed) // what it was narrowed to is no news later
		_, still := w.Narrowed[workload.ID(id)]
		return narrowed && !still
	})
}
