package work

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Task is the steps of one workload that are under way, the first of them now.
type Task struct {
	Steps     []plan.Step
	Effect    uint64   // the one under way
	Writing   bool     // it changes something; until then it reads the current values
	Entries   []uint64 // of the journal, of the step under way
	Cancelled bool     // nothing more is begun
	Took      bool     // a step of it took
	Pinned    uint64   // scans up to this one may have seen a part of the affinities that it wrote
	Scan      uint64   // the plan was made on
	Target    string   // what it changes, as plan.Target.Own

	Move     *plan.Move // the record of a page move that has begun
	Saved    time.Time  // when Move was last written to disk
	Transfer *Transfer  // nil for settings that are changed at once

	Request  uint64     // that asked for it; 0 for a plan of a scan
	Together bool       // of a request: nothing follows a step that failed
	Errs     []*Failure // of a request: how each step went
}

// Step returns the step under way.
func (t *Task) Step() *plan.Step { return &t.Steps[0] }

// Begin starts a task on its first step.
func (w *Work) Begin(id workload.ID, t *Task) {
	if len(t.Steps) > 0 {
		t.Target = t.Steps[0].Target.Own()
	}
	w.Tasks[id] = t
	t.Cancelled = t.Cancelled || w.Stopping
	if w.moving != nil && t.Transfer != nil {
		w.moving[id] = true
	}
	w.next(id, t)
}

// next begins the first step of a task, or ends it.
func (w *Work) next(id workload.ID, t *Task) {
	if !t.Cancelled && t.Request == 0 {
		w.skipWaiting(t)
	}
	if len(t.Steps) == 0 || t.Cancelled {
		w.end(id, t)
		return
	}
	step := *t.Step()
	t.Writing, t.Entries = false, nil
	if step.Kind.MovesPages() {
		w.beginMove(id, t, step)
		return
	}
	w.read(id, t, step)
}

// skipWaiting skips steps that failed lately. Nothing follows one that the next steps need.
func (w *Work) skipWaiting(t *Task) {
	for len(t.Steps) > 0 && w.waiting(t.Step()) {
		if !t.Step().Optional {
			t.Steps = nil
			return
		}
		t.Steps = t.Steps[1:]
	}
}

// read has the settings of a step read before they are changed.
func (w *Work) read(id workload.ID, t *Task, step plan.Step) {
	e := Effect{Kind: EffectRead, Workload: id, Step: &step}
	if inherits(&step) {
		e.Journal = w.Journal.Affinities() // what it has from homenode is not its own
	}
	w.run(id, t, e)
}

// run does the effect of a task.
func (w *Work) run(id workload.ID, t *Task, e Effect) {
	t.Effect = w.Effect(e)
	w.Running[t.Effect] = id
}

func inherits(step *plan.Step) bool { return step.Target.Kind == workload.InProcess }

// Cancel lets nothing more of a task begin, and stops a page move.
func (w *Work) Cancel(id workload.ID, t *Task) {
	if t.Cancelled {
		return
	}
	t.Cancelled = true
	if t.Move != nil && t.Writing && t.Step().Kind.MovesPages() {
		w.loop.Do(Effect{Kind: EffectCancel, Workload: id, Of: t.Effect})
	}
}

// stopNow also stops a step that sets memory nodes: the kernel moves memory then, for minutes, and an
// undo waits for no more of that than the daemon gives it to end.
func (w *Work) stopNow(id workload.ID, t *Task) {
	w.Cancel(id, t)
	if t.Writing && t.Step().Kind.PullsMemory() {
		w.loop.Do(Effect{Kind: EffectCancel, Workload: id, Of: t.Effect})
	}
}

// Stop begins nothing more.
func (w *Work) Stop() {
	w.Stopping = true
	for _, id := range sortedKeys(w.Tasks) {
		w.Cancel(id, w.Tasks[id])
	}
}

// end removes a task, answers the request for it, and goes on with what waited.
func (w *Work) end(id workload.ID, t *Task) {
	delete(w.Tasks, id)
	delete(w.moving, id)
	pinned := max(t.Pinned, w.Ended[id].Pinned)
	if !t.Took && t.Request == 0 {
		w.Tried[id] = true
	}
	if t.Took && t.Transfer == nil {
		w.wrote(id)
	}
	if t.Transfer != nil {
		w.Report(EffectMoved, id)
		recorded := t.Move != nil && w.Moves[id].Started.Equal(t.Move.Started)
		w.Ended[id] = Ended{Scan: w.Scans, Recorded: recorded}
	}
	if t.Request != 0 {
		w.Ended[id] = Ended{Scan: w.Scans, Asked: true}
		w.answer(t)
	}
	end, ok := w.Ended[id]
	if ok {
		end.Pinned, end.Target = pinned, t.Target
		w.Ended[id] = end
	}
	w.dequeue(id)
	if len(w.Undoing) > 0 {
		w.UndoMore()
	}
	if t.Transfer != nil {
		w.Dispatch()
	} else {
		w.dispatchRest(id)
	}
}

// answer answers the request for a task.
func (w *Work) answer(t *Task) {
	cut := heldByHand()
	n := len(t.Errs)
	if t.Together && n > 0 && t.Errs[n-1] != nil {
		cut = t.Errs[n-1]
	}
	for range t.Steps {
		t.Errs = append(t.Errs, cut)
	}
	w.loop.Changed(t.Request, t.Errs)
}

// Queue begins a task once nothing else of its workload is under way. It has the last word: what is
// under way is cancelled.
func (w *Work) Queue(id workload.ID, t *Task) {
	now := w.Tasks[id]
	if now != nil {
		w.Cancel(id, now)
	}
	if now != nil || w.Undoes(id) {
		w.Queued = append(w.Queued, &Queued{id, t})
		return
	}
	w.Begin(id, t)
}

// dequeue begins a task that waited for this workload.
func (w *Work) dequeue(id workload.ID) {
	i := slices.IndexFunc(w.Queued, func(q *Queued) bool { return q.ID == id })
	if i < 0 || w.Undoes(id) {
		return
	}
	t := w.Queued[i].Task
	w.Queued = slices.Delete(w.Queued, i, i+1)
	w.Begin(id, t)
}

// wrote notes that what a scan that is under way has seen of a workload is older than what was
// written, or tried.
func (w *Work) wrote(id workload.ID) {
	end, ok := w.Ended[id]
	end.Scan, end.Settings = w.Scans, end.Settings || !ok
	w.Ended[id] = end
}

// OwnWrites returns observations of affinities as homenode's own where a scan saw them while they were
// being written: the scan may have begun before it was known which.
func (w *Work) OwnWrites(seen []workload.Observation) []workload.Observation {
	out := seen
	for i := range seen {
		o := &seen[i]
		if !o.Pinned || !w.mayHavePinned(o.ID) {
			continue
		}
		if &out[0] == &seen[0] {
			out = slices.Clone(seen)
		}
		out[i].Pinned, out[i].PinnedWhy = false, ""
	}
	return out
}

// mayHavePinned reports whether the newest scan may have seen a part of the affinities that homenode
// wrote of a workload.
func (w *Work) mayHavePinned(id workload.ID) bool {
	scan := w.loop.LastScan()
	if w.Ended[id].Pinned >= scan {
		return true
	}
	t := w.Tasks[id]
	if t == nil {
		return false
	}
	pinsNow := t.Writing && t.Step().Kind.Pins()
	return t.Pinned >= scan || pinsNow
}

// AdoptInherited journals what has inherited a value that an entry gave, with the value it would
// have without homenode, so that undo finds it when the one it inherited from is gone. of
// names the workload that a process belongs to; for those it does not know, the one it
// inherits from is taken. AdoptInherited returns those that inherited from an entry that has gone since
// they were looked for: the caller has to ask again.
func (w *Work) AdoptInherited(found []plan.Inherited, of func(workload.Process) (workload.ID, bool)) (stale []plan.Inherited) {
	for _, h := range found {
		if w.Journal.Of(h.Kind, h.Path) != nil {
			continue
		}
		from := w.Journal.At(h.Of)
		if from == nil {
			stale = append(stale, h)
			continue
		}
		id := from.Workload
		p, err := plan.ParseProcessPath(h.Path)
		if err == nil && of != nil {
			own, ok := of(p)
			if ok {
				id = own
			}
		}
		w.Put(w.inherited(&h, from, id))
		if err == nil && w.loop.IsRoot(id, p) {
			w.loop.GaveValue(id, h.Kind, h.Has)
		}
	}
	return stale
}

// inherited returns the entry of what has inherited from another one.
func (w *Work) inherited(h *plan.Inherited, from *plan.Entry, id workload.ID) plan.Entry {
	e := plan.Entry{
		Seq:      w.NextSeq(),
		Time:     from.Time, // its own children may be older than now
		Ticks:    from.Ticks,
		Workload: id,
		Kind:     h.Kind,
		Path:     h.Path,
		Groups:   h.Groups,
		Object:   h.Object,
		Old:      h.Value,
		New:      h.Has,
		Of:       h.Of,
		State:    plan.Applied,
	}
	if from.Kind == h.Kind && from.New != h.Has { // what has been set since it was seen, or is now, reaches it too
		past := slices.DeleteFunc(slices.Clone(from.Past), func(p string) bool { return p == h.Has })
		e.New, e.Past = from.New, append(past, h.Has)
	}
	return e
}
