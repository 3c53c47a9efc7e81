package work

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// After MostOverwrites settings that homenode had made were set anew by other programs, a workload is
// left alone for GiveInFor.
const (
	MostOverwrites = 3
	GiveInFor      = time.Hour
)

// Work is what is being changed on a host, what was changed, and what failed.
type Work struct {
	At       time.Time // of the newest input
	Scans    uint64    // begun
	Stopping bool      // the daemon ends: nothing is begun any more

	// On disk.
	Seq     uint64                    // of the newest journal entry ever
	Journal journal.Journal           `json:"-"`
	Theirs  journal.Foreign           // settings of other programs, by kind and path
	Moves   map[workload.ID]plan.Move // the newest that ended, of workloads that are there
	Undoing []*Undoing

	// Under way.
	Effects uint64 // numbered so far
	Tasks   map[workload.ID]*Task
	Running map[uint64]workload.ID    // tasks by their effect
	Queued  []*Queued                 // tasks that wait for a task of their workload to end
	Ended   map[workload.ID]Ended     // what ended, until a scan has seen what it did
	Waits   map[workload.ID]time.Time // transfers that are not begun yet, since when
	Checks  map[uint64]workload.ID    // effects that read settings which do not read as they should

	// What failed.
	Tried      map[workload.ID]bool // since the newest scan, and nothing took: not begun again before the next
	Retries    map[Key]Retry
	Silent     map[workload.ID]Silent
	Overwrites map[workload.ID]Overwrite
	Narrowed   map[workload.ID]topology.CPUSet // CPUs left of those homenode gave, where others took some

	inUseAs map[string]workload.ID // see FindTargets; made anew before it is asked
	todo    todo
	moving  map[workload.ID]bool // tasks with a transfer; nil when not known
	loop    Loop
}

// New returns the work that an earlier daemon has left.
func New(seq uint64, entries []plan.Entry, theirs []journal.Theirs, moves []plan.Move, undoing []Which) Work {
	w := Work{
		Seq:        seq,
		Journal:    journal.New(entries),
		Theirs:     journal.ForeignOf(theirs),
		Moves:      map[workload.ID]plan.Move{},
		Tasks:      map[workload.ID]*Task{},
		Running:    map[uint64]workload.ID{},
		Ended:      map[workload.ID]Ended{},
		Waits:      map[workload.ID]time.Time{},
		Checks:     map[uint64]workload.ID{},
		Tried:      map[workload.ID]bool{},
		Retries:    map[Key]Retry{},
		Silent:     map[workload.ID]Silent{},
		Overwrites: map[workload.ID]Overwrite{},
		Narrowed:   map[workload.ID]topology.CPUSet{},
	}
	for _, m := range moves {
		w.Moves[m.Workload] = m
	}
	for _, which := range undoing {
		if !which.Sharing { // of an earlier version: what is no longer desired is found again
			w.Undoing = append(w.Undoing, &Undoing{Which: which})
		}
	}
	return w
}

// Attach says who the rest of control is.
func (w *Work) Attach(loop Loop) { w.loop = loop }

// Ended is when something ended that scans must begin after to see.
type Ended struct {
	Scan     uint64 // the newest that had begun
	Recorded bool   // the newest record of a move is of it
	Asked    bool   // the user asked for the change
	Settings bool   // it was no page move
	Pinned   uint64 // scans up to this one may have seen a part of affinities that were written
	Target   string // what was changed, as plan.Target.Own
}

// Overwrite is how often other programs have set anew what homenode had set of a workload.
type Overwrite struct {
	Count int
	Last  time.Time
}

// Silent is a workload of which a call did not return.
type Silent struct {
	Failures int
	Until    time.Time
	Text     string
	Code     Code          // NoAnswer or NotFrozen
	Wait     time.Duration // from the failure to Until
	Target   string        // in which the call did not return, as plan.Target.Own
}

// Why returns why a silent workload is left alone.
func (q *Silent) Why() words.Reason {
	if q.Code == NotFrozen {
		return words.Because(words.NotFrozen, q.Wait)
	}
	return words.Because(words.Unanswered, q.Text)
}

// Fresh reports whether the newest scan saw what was last done to a workload.
func (w *Work) Fresh(id workload.ID) bool {
	end, ok := w.Ended[id]
	return !ok || end.Scan < w.loop.LastScan()
}

// Changing reports whether what was seen of a workload is from the midst of a change that the user
// asked for, or older: nothing is concluded from it.
func (w *Work) Changing(id workload.ID) bool {
	t := w.Tasks[id]
	if t != nil && t.Request != 0 {
		return true
	}
	return w.Ended[id].Asked && !w.Fresh(id)
}

// SilentNow reports whether a workload is left alone because a call did not return.
func (w *Work) SilentNow(id workload.ID) bool {
	q, ok := w.Silent[id]
	return ok && w.Later(q.Until)
}

// waiting reports whether a step failed lately and is not yet due again.
func (w *Work) waiting(step *plan.Step) bool {
	if len(w.Retries) == 0 {
		return false
	}
	r, ok := w.Retries[KeyOf(step)]
	return ok && w.Later(r.Next)
}

// Later reports whether the time of a retry is still to come. It is never further off than RetryMost,
// unless the clock was set back.
func (w *Work) Later(until time.Time) bool {
	left := until.Sub(w.At)
	return left > 0 && left <= RetryMost
}

// Again reports whether something that may fail may be tried now, and if so puts off the next try.
func (w *Work) Again(key Key) bool {
	r := w.Retries[key]
	if w.Later(r.Next) {
		return false
	}
	w.Retries[key] = Retry{Failures: r.Failures + 1, Next: w.At.Add(backoff(r.Failures))}
	return true
}

// backoff returns how long something waits that has failed so many times before.
func backoff(failures int) time.Duration {
	return min(RetryFirst<<min(failures, 10), RetryMost)
}

// Checking returns the workloads whose settings are being read to find who set them: nothing is begun
// for them.
func (w *Work) Checking() map[workload.ID]bool {
	out := make(map[workload.ID]bool, len(w.Checks))
	for _, id := range w.Checks {
		out[id] = true
	}
	return out
}

// FindTargets notes the cgroups and processes that are being changed, read or restored, or in which a
// call has not returned, with the workload that it is for; "" for several. They get another ID
// when a source appears or goes away: what is done under the two IDs must not run beside each other,
// or one draws its conclusions from what the other is about to change.
func (w *Work) FindTargets() {
	out := map[string]workload.ID{}
	use := func(target string, id workload.ID) {
		other, ok := out[target]
		if ok && other != id {
			id = ""
		}
		if target != "" {
			out[target] = id
		}
	}
	for id, q := range w.Silent {
		if w.Later(q.Until) {
			use(q.Target, id)
		}
	}
	for id, t := range w.Tasks {
		use(t.Target, id)
	}
	for id, end := range w.Ended {
		if !w.Fresh(id) {
			use(end.Target, id)
		}
	}
	w.inUseAs = out
	if len(w.Checks)+len(w.Undoing) == 0 {
		return
	}
	checking := w.Checking()
	all := w.Journal.All()
	for i := range all {
		e := &all[i]
		if checking[e.Workload] || slices.ContainsFunc(w.Undoing, func(u *Undoing) bool { return u.has(e) }) {
			use(e.Path, e.Workload)
		}
	}
}

// InUseElsewhere reports whether a target was in use under another ID than this when FindTargets was
// last called.
func (w *Work) InUseElsewhere(target string, id workload.ID) bool {
	other, used := w.inUseAs[target]
	return used && other != id
}

// Undoes reports whether an undo under way includes a workload: nothing is begun for it.
func (w *Work) Undoes(id workload.ID) bool {
	return slices.ContainsFunc(w.Undoing, func(u *Undoing) bool { return u.about(id) })
}

// Effect asks for something to be done and returns its number.
func (w *Work) Effect(e Effect) uint64 {
	w.Effects++
	e.ID = w.Effects
	w.loop.Do(e)
	return e.ID
}

// Put writes an entry into the journal, in memory and on disk.
func (w *Work) Put(e plan.Entry) {
	w.Journal.Put(e)
	w.loop.SaveEntry(e)
}

// NextSeq returns the number of a new journal entry.
func (w *Work) NextSeq() uint64 {
	w.Seq++
	return w.Seq
}

// Mark records how far an entry has come.
func (w *Work) Mark(e *plan.Entry, state plan.EntryState) {
	if e.State == state {
		return
	}
	marked := *e
	marked.State = state
	if state == plan.Applied {
		marked.Take()
	}
	w.Put(marked)
}

// SaveMove keeps the record of a page move and writes it to disk.
func (w *Work) SaveMove(m plan.Move) {
	w.Moves[m.Workload] = m
	w.loop.SaveMove(m)
}

// Report has the observer know what was done to a workload.
func (w *Work) Report(kind EffectKind, id workload.ID) {
	for _, part := range w.loop.Observed(id) {
		w.loop.Do(Effect{Kind: kind, Workload: part})
	}
}

// needsRestored reports whether what a step changes, or the controllers it needs, is being
// restored: what is read then may not stand.
func (w *Work) needsRestored(step *plan.Step) bool {
	return w.restores(func(e *plan.Entry) bool {
		if e.Kind == plan.Affinity {
			p, err := plan.ParseProcessPath(e.Path)
			return err == nil && slices.Contains(step.Target.Processes, p)
		}
		above := e.Kind.IsController() && Inside(step.Target.Cgroup, e.Path)
		return e.Workload == step.Workload || above
	})
}

// restoring reports whether a setting is being restored, or the controllers it needs.
func (w *Work) restoring(c *plan.Change) bool {
	return w.restores(func(e *plan.Entry) bool {
		same := e.Kind == c.Kind && e.Path == c.Path
		above := e.Kind.IsController() && Inside(c.Path, e.Path)
		return same || above
	})
}

// restores reports whether an entry that fits is being restored.
func (w *Work) restores(fits func(*plan.Entry) bool) bool {
	for _, u := range w.Undoing {
		for _, entries := range u.Running {
			for i := range entries {
				if fits(&entries[i]) {
					return true
				}
			}
		}
	}
	return false
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
