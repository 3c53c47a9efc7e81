package work

import (
	"slices"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// KeyUndoing is the key on disk of the undos under way that the user ordered.
const KeyUndoing = "undoing"

// DryUndo returns what an undo would restore, of the journal and of more entries.
func (w *Work) DryUndo(which Which, more []plan.Entry) Undone {
	u := Undoing{Which: which}
	for _, e := range slices.Backward(slices.Concat(w.Journal.All(), more)) {
		if u.has(&e) {
			u.Result.Restored = append(u.Result.Restored, e)
		}
	}
	would := Undone{Workload: which.ID, Restored: u.Result.Restored}
	for i := range would.Restored {
		e := &would.Restored[i]
		_, _, ok := w.loop.Had(e.Kind, e.Path)
		if ok {
			would.Policies = append(would.Policies, e.Workload)
		}
	}
	return would
}

// Undo stops the page moves of what matches and restores its settings, without waiting for those
// moves to end. more is settings that are not in the journal yet.
func (w *Work) Undo(request uint64, which Which, more []plan.Entry) {
	if which.Only == "" {
		w.stopWhat(which)
	}
	// of a command that was interrupted: this does the rest
	w.Undoing = slices.DeleteFunc(w.Undoing, func(u *Undoing) bool {
		includes := (which.All && !which.Own) || u.Which == which
		over := u.Request == 0 && len(u.Running) == 0 && includes
		if over && u.Entries == nil {
			w.tellGoesOn(u)
		}
		return over
	})
	if which.Only == "" {
		for _, e := range more {
			w.Seq = e.Seq
			w.Put(e)
		}
	}
	w.Undoing = append(w.Undoing, &Undoing{Which: which, Request: request, Result: Undone{Workload: which.ID}})
	w.saveUndoing()
	w.UndoMore()
}

// stopWhat stops the tasks of what is undone, and lets none begin that waits.
func (w *Work) stopWhat(which Which) {
	if len(w.Tasks) > 0 {
		restores := map[string]bool{} // also what was set under another ID
		for _, e := range w.Journal.All() {
			restores[e.Path] = restores[e.Path] || which.Has(e.Workload)
		}
		for _, id := range sortedKeys(w.Tasks) {
			t := w.Tasks[id]
			if which.Has(id) || restores[t.Target] {
				w.stopNow(id, t)
			}
		}
	}
	for _, q := range w.Queued {
		q.Task.Cancelled = q.Task.Cancelled || which.Has(q.ID)
	}
}

// RestoreOnly restores some entries of one workload; nothing is held afterwards.
func (w *Work) RestoreOnly(id workload.ID, entries map[uint64]bool) {
	w.Undoing = append(w.Undoing, &Undoing{Of: id, Entries: entries})
	w.UndoMore()
}

// GoOn goes on with the undos that an earlier daemon left half done.
func (w *Work) GoOn() {
	for _, u := range w.Undoing {
		w.tellGoesOn(u)
	}
	w.UndoMore()
}

func (w *Work) tellGoesOn(u *Undoing) {
	w.loop.Event(plan.Event{Kind: plan.EventUndo, Workload: u.Which.ID}, words.UndoGoesOn, u.Which.Name())
}

func (w *Work) saveUndoing() {
	which := []Which{}
	for _, u := range w.Undoing {
		if u.Entries == nil {
			which = append(which, u.Which)
		}
	}
	w.loop.Save(KeyUndoing, which)
}

// UndoMore restores what is next of every undo under way: affinities together, for one
// look at all processes then finds who has inherited, but for those of processes whose
// threads are still divided; otherwise workload by workload, the
// last change first, so that one call that does not return holds up nobody else.
func (w *Work) UndoMore() {
	for _, u := range slices.Clone(w.Undoing) {
		if slices.Contains(w.Undoing, u) { // the end of one may have been that of others
			w.undoNext(u)
		}
	}
}

// nextRestores is the entries of an undo that may be restored now.
type nextRestores struct {
	affinities []plan.Entry
	last       []plan.Entry // controllers
	order      []workload.ID
	groups     map[workload.ID][]plan.Entry
	threads    map[workload.ID][]plan.Entry
	dividing   map[string]bool // processes whose threads are being restored, or divided at this moment
	blocked    bool            // something is being changed at this moment
}

func (w *Work) undoNext(u *Undoing) {
	if u.Running == nil {
		u.Running, u.Tried = map[uint64][]plan.Entry{}, map[uint64]bool{}
	}
	n := w.nextOf(u)
	busy := map[workload.ID]bool{}
	for _, entries := range u.Running {
		for _, e := range entries {
			busy[e.Workload] = true
		}
	}
	// Threads that are divided come first: then they have what their process was given.
	for _, id := range sortedKeys(n.threads) {
		w.restore(u, n.threads[id])
	}
	all := len(n.affinities)
	n.affinities = slices.DeleteFunc(n.affinities, func(e plan.Entry) bool { return n.dividing[e.Path] })
	n.blocked = n.blocked || len(n.affinities) < all
	if len(n.affinities) > 0 {
		w.restore(u, n.affinities)
	}
	for _, id := range n.order {
		if busy[id] {
			n.blocked = true
			continue
		}
		// What makes other settings anew goes first.
		slices.SortStableFunc(n.groups[id], func(a, b plan.Entry) int {
			return compareBool(b.Kind.Remakes(), a.Kind.Remakes())
		})
		w.restore(u, n.groups[id])
	}
	switch {
	case n.blocked || len(u.Running) > 0:
	case len(n.last) > 0: // a controller goes off when no cgroup below needs it
		w.restore(u, n.last)
	default:
		w.undone(u)
	}
}

// nextOf finds the entries of an undo that were not tried yet.
func (w *Work) nextOf(u *Undoing) *nextRestores {
	n := &nextRestores{
		groups:   map[workload.ID][]plan.Entry{},
		threads:  map[workload.ID][]plan.Entry{},
		dividing: map[string]bool{},
	}
	for _, entries := range u.Running {
		for i := range entries {
			e := &entries[i]
			n.dividing[e.Path] = n.dividing[e.Path] || ofThreads(e)
		}
	}
	elsewhere := w.restoredElsewhere(u)
	writing := w.beingWritten()
	for _, e := range slices.Backward(w.Journal.All()) {
		if u.Tried[e.Seq] || !u.has(&e) {
			continue
		}
		needed := e.Kind.IsController() && w.changesInside(e.Path)
		if elsewhere[e.Seq] || writing[e.Seq] || needed {
			n.blocked = true
			n.dividing[e.Path] = n.dividing[e.Path] || ofThreads(&e)
			continue
		}
		n.add(e)
	}
	return n
}

func (n *nextRestores) add(e plan.Entry) {
	switch {
	case ofThreads(&e):
		n.threads[e.Workload] = append(n.threads[e.Workload], e)
		n.dividing[e.Path] = true
	case e.Kind == plan.Affinity:
		n.affinities = append(n.affinities, e)
	case e.Kind.IsController():
		n.last = append(n.last, e)
	default:
		if n.groups[e.Workload] == nil {
			n.order = append(n.order, e.Workload)
		}
		n.groups[e.Workload] = append(n.groups[e.Workload], e)
	}
}

// restoredElsewhere returns the entries that other undos than this restore at this moment.
func (w *Work) restoredElsewhere(u *Undoing) map[uint64]bool {
	out := map[uint64]bool{}
	for _, x := range w.Undoing {
		if x == u {
			continue
		}
		for _, entries := range x.Running {
			for i := range entries {
				out[entries[i].Seq] = true
			}
		}
	}
	return out
}

// beingWritten returns the entries whose settings are being changed.
func (w *Work) beingWritten() map[uint64]bool {
	out := map[uint64]bool{}
	for _, t := range w.Tasks {
		if t.Writing {
			for _, seq := range t.Entries {
				out[seq] = true
			}
		}
	}
	return out
}

// changesInside reports whether a cgroup below one is being changed, which needs its
// controllers.
func (w *Work) changesInside(group string) bool {
	for _, t := range w.Tasks {
		if len(t.Steps) > 0 && Inside(t.Step().Target.Cgroup, group) {
			return true
		}
	}
	return false
}

func (w *Work) restore(u *Undoing, entries []plan.Entry) {
	for i := range entries {
		u.Tried[entries[i].Seq] = true
	}
	e := Effect{Kind: EffectRestore, Workload: entries[0].Workload, Entries: entries}
	if journal.Inherits(entries[0].Kind) {
		e.Journal = w.Journal.Affinities()
	}
	u.Running[w.Effect(e)] = entries
}

// UndoResult takes up what became of a restore, and reports whether the result is of one.
func (w *Work) UndoResult(r *Result) bool {
	i := slices.IndexFunc(w.Undoing, func(u *Undoing) bool { return u.Running[r.ID] != nil })
	if i < 0 {
		return false
	}
	u := w.Undoing[i]
	entries := u.Running[r.ID]
	delete(u.Running, r.ID)
	w.wasFrozen(plan.EventUndo, entries[0].Workload, r)
	for k, e := range entries {
		f := r.Failed
		if f == nil && k < len(r.Each) {
			f = r.Each[k]
		}
		if w.restored(u, &e, f) {
			if w.Journal.At(e.Seq) != nil {
				w.Put(e)
			}
			w.loop.EntryRestored(&e)
		}
	}
	w.UndoMore()
	return true
}

// restored takes up how the restore of an entry went, and reports whether the entry leaves the journal.
func (w *Work) restored(u *Undoing, e *plan.Entry, f *Failure) bool {
	event := plan.Event{Kind: plan.EventUndo, Workload: e.Workload}
	out := &u.Result
	if f == nil {
		w.loop.Event(event, words.PutBack, string(e.Kind), e.Path, e.New, e.Kind.Text(e.Old))
		w.hasOld(out, e)
		out.Restored = append(out.Restored, *e)
		return true
	}
	switch f.Code {
	case Unchanged:
		w.loop.Event(event, words.StoodAsBefore, string(e.Kind), e.Path, e.Kind.Text(e.Old))
		w.hasOld(out, e)
		out.Unchanged = append(out.Unchanged, *e)
	case Gone:
		if u.Entries == nil { // batch work ends all the time, and what was set of it with it
			w.loop.Event(event, words.NothingToRestore, string(e.Kind), e.Path)
		}
		e.State = plan.Gone
		out.Gone = append(out.Gone, *e)
	case Foreign:
		w.loop.Event(event, words.NotRestoredTheirs, string(e.Kind), e.Path, f.Text)
		e.State = plan.Gone
		w.keepTheirs(e)
		out.Foreign = append(out.Foreign, *e)
	case InUse:
		if u.Entries == nil {
			w.loop.Event(event, words.RestoredLater, f.Text)
		} else { // it is tried for as long as others use it
			w.loop.Once("in use "+e.Path, event, words.RestoredLater, f.Text)
		}
		out.Deferred = append(out.Deferred, NotUndone{*e, f.Text})
		return false
	default:
		event.Error = true
		w.loop.Event(event, words.NotRestored, string(e.Kind), e.Path, e.Kind.Text(e.Old), f.Text)
		out.Failed = append(out.Failed, NotUndone{*e, f.Text})
		return false
	}
	return true
}

// hasOld takes up that the setting of an entry has its old value.
func (w *Work) hasOld(out *Undone, e *plan.Entry) {
	e.State = plan.Restored
	w.Report(EffectChanged, e.Workload)
	if e.Kind == plan.Affinity && w.loop.RestoredAffinity(e) {
		out.Policies = append(out.Policies, e.Workload)
	}
}

// undone ends an undo and answers it.
func (w *Work) undone(u *Undoing) {
	w.Undoing = slices.DeleteFunc(w.Undoing, func(x *Undoing) bool { return x == u })
	if u.Entries == nil {
		w.saveUndoing()
	}
	w.loop.Undone(u.Request, &u.Result)
	for _, q := range slices.Clone(w.Queued) { // what waited for it
		if w.Tasks[q.ID] == nil {
			w.dequeue(q.ID)
		}
	}
}
