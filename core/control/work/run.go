package work

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

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

func heldByHand() *Failure {
	return &Failure{Code: Cancelled, Text: words.Because(words.HeldByHand).String()}
}

// TaskResult goes on with the task whose effect has ended, and reports whether there is one.
func (w *Work) TaskResult(r *Result) bool {
	id, ok := w.Running[r.ID]
	if !ok {
		return false
	}
	delete(w.Running, r.ID)
	t := w.Tasks[id]
	step := *t.Step()
	switch {
	case step.Kind.MovesPages():
		w.endMove(id, t, step, r.Failed)
	case r.Failed != nil:
		w.wasFrozen(plan.EventStep, id, r)
		w.failed(id, t, step, r)
	case !t.Writing:
		w.intend(id, t, step, r)
	default:
		w.wasFrozen(plan.EventStep, id, r)
		w.applied(id, t, step)
	}
	return true
}
