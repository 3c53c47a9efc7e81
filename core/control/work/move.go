package work

import (
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// States of a page move.
const (
	MoveRunning     = "running"
	MovePaused      = "paused"
	MoveInterrupted = "interrupted" // the daemon ended first
	MoveDone        = "done"
	MoveCancelled   = "cancelled"
	MoveFailed      = "failed"
)

// saveEvery bounds how often a page move in progress is written to disk.
const saveEvery = time.Second

// Progress is how far a page move has come.
type Progress struct {
	ID   uint64    `json:"id"` // of the effect
	Move plan.Move `json:"move"`
}

// beginMove writes the record of a page move to disk before the first page moves, so that
// after a crash it is known that pages were under way.
func (w *Work) beginMove(id workload.ID, t *Task, step plan.Step) {
	m := plan.Move{Workload: id, Home: step.To, Planned: step.Bytes, Started: w.At.Round(0), State: MoveRunning}
	o := w.loop.Observation(id)
	if o != nil {
		m.LocalityBefore = localityOf(o)
	}
	t.Move = &m
	t.Saved = w.At
	t.Writing = true
	w.loop.SaveMove(m)
	if step.Bytes > 0 {
		w.loop.Event(plan.Event{Kind: plan.EventMove, Workload: id}, words.MoveBegins, step.Bytes, step.To, step.Reason)
	}
	w.run(id, t, Effect{Kind: EffectApply, Workload: id, Step: &step})
}

// Progressed takes up how far a page move has come.
func (w *Work) Progressed(p *Progress) {
	id, ok := w.Running[p.ID]
	t := w.Tasks[id]
	if !ok || t.Move == nil {
		return
	}
	m := *t.Move // readers have the old one
	m.Moved = p.Move.Moved
	m.Refused = p.Move.Refused
	m.RefusedBy = p.Move.RefusedBy
	m.Why = p.Move.Why
	was := m.State
	m.State = MoveRunning
	if p.Move.State == MovePaused {
		m.State = MovePaused
	}
	m.Seconds = w.At.Sub(m.Started).Seconds()
	t.Move = &m
	if w.At.Sub(t.Saved) >= saveEvery || m.State != was {
		t.Saved = w.At
		w.loop.SaveMove(m)
	}
	switch {
	case m.State == was:
	case m.State == MovePaused:
		w.loop.Event(plan.Event{Kind: plan.EventMove, Workload: id}, words.MoveRests, m.Home, m.Moved, m.Planned,
			p.Move.Why)
	default:
		w.loop.Event(plan.Event{Kind: plan.EventMove, Workload: id}, words.MoveGoesOn, m.Home)
	}
}

// endMove records how a page move ended and goes on with the task.
func (w *Work) endMove(id workload.ID, t *Task, step plan.Step, f *Failure) {
	m := *t.Move
	m.Seconds = w.At.Sub(m.Started).Seconds()
	switch {
	case f == nil:
		m.State = MoveDone
	case f.Code == Cancelled:
		m.State = MoveCancelled
	default:
		m.State, m.Why = MoveFailed, f.Text
	}
	t.Move = &m
	w.SaveMove(m)
	event := plan.Event{Kind: plan.EventMove, Workload: id, Move: &m}
	switch m.State {
	case MoveDone:
		w.moved(t, &step, event)
		t.Steps = t.Steps[1:]
		w.next(id, t)
	case MoveCancelled:
		w.loop.Event(event, words.MoveCancelled, m.Home, m.Moved, m.Planned)
		t.Cancelled = true
		w.end(id, t)
	default:
		if t.Request != 0 { // failed reports those that homenode does by itself
			event.Error = true
			w.loop.Event(event, words.MoveFailed, m.Home, f.Text)
			w.forgetUnchanged(id)
		}
		w.failed(id, t, step, &Result{Failed: f})
	}
}

// moved takes up that a page move was done.
func (w *Work) moved(t *Task, step *plan.Step, event plan.Event) {
	m := t.Move
	if m.Moved < step.Bytes/2 || immovable(m) { // the rest would not move either if tried at once
		w.putOff(step, "", "")
	} else {
		delete(w.Retries, KeyOf(step))
	}
	switch {
	case m.Refused > 0 && m.Moved == 0:
		w.loop.Event(event, words.MoveEndedNone, m.Home, m.Refused, m.Why)
	case m.Refused > 0:
		w.loop.Event(event, words.MoveEndedPart, m.Moved, m.Home, m.Seconds, m.Refused, m.Why)
	case m.Moved > 0:
		w.loop.Event(event, words.MoveEnded, m.Moved, m.Home, m.Seconds)
	}
	w.forget(step)
}

// ShowMoved records what moves that have ended did to locality, once a scan that began after their
// end has seen it.
func (w *Work) ShowMoved() {
	for _, id := range sortedKeys(w.Ended) {
		end := w.Ended[id]
		o := w.loop.Observation(id)
		stillMoving := o != nil && o.MemoryMoved
		if end.Scan >= w.loop.LastScan() || stillMoving {
			continue
		}
		delete(w.Ended, id)
		m, ok := w.Moves[id]
		if o == nil || !ok || !end.Recorded {
			continue
		}
		m.LocalityAfter = localityOf(o)
		if m.LocalityAfter == nil {
			continue
		}
		w.SaveMove(m)
		e := plan.Event{Kind: plan.EventMove, Workload: id, Move: &m}
		if m.LocalityBefore != nil {
			w.loop.Event(e, words.LocalityChanged, m.Home, *m.LocalityAfter, *m.LocalityBefore)
		} else {
			w.loop.Event(e, words.LocalityAfterMove, m.Home, *m.LocalityAfter)
		}
	}
}

// localityOf returns the locality of an observation; nil when unknown.
func localityOf(o *workload.Observation) *float64 {
	l, ok := o.Expected()
	if !ok {
		return nil
	}
	return &l
}

// Interrupt records the page moves that an earlier daemon did not end.
func (w *Work) Interrupt() {
	for _, id := range sortedKeys(w.Moves) {
		m := w.Moves[id]
		if m.State != MoveRunning && m.State != MovePaused {
			continue
		}
		m.State = MoveInterrupted
		w.SaveMove(m)
		w.loop.Event(plan.Event{Kind: plan.EventMove, Workload: id}, words.MoveInterrupted, m.Home, m.Moved, m.Planned)
	}
}

// PutOffMove returns why a page move is not tried now; none when it may be.
func (w *Work) PutOffMove(step *plan.Step) words.Reason {
	if !w.waiting(step) {
		return words.Reason{}
	}
	text := w.Retries[KeyOf(step)].Text
	if text == "" {
		return words.Because(words.FlightPutOffRest)
	}
	return words.Because(words.FlightPutOff, text)
}
