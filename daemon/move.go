package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// States of a page move.
const (
	moveRunning     = "running"
	movePaused      = "paused"
	moveInterrupted = "interrupted" // the daemon ended first
	moveDone        = "done"
	moveCancelled   = "cancelled"
	moveFailed      = "failed"
)

// saveEvery bounds how often a move in progress is written to disk: each write
// is an fsync.
const saveEvery = time.Second

// move is one page move in flight.
type move struct {
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{}
	transfer *transfer
	record   plan.Move // guarded by Daemon.mu
	recorded bool      // the record is in Daemon.moved; guarded by Daemon.mu
}

// end is when a move ended.
type end struct {
	look     uint64 // that was under way, or the last
	recorded bool   // the newest record in Daemon.moved is of it
}

// startMove takes the steps beside the loop in their order: page moves and memory
// nodes. The first that fails ends it.
func (d *Daemon) startMove(ctx context.Context, w *transfer) {
	steps := paced(w.steps)
	s := steps[0]
	for _, x := range steps {
		if x.Kind == plan.MovePages {
			s = x
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &move{ctx: ctx, cancel: cancel, done: make(chan struct{}), transfer: w, record: plan.Move{
		Workload: s.Workload, Home: s.To, Planned: s.Bytes, Started: d.o.Clock.Now(), State: moveRunning}}
	if o := d.observed(s.Workload); o != nil {
		m.record.LocalityBefore = localityOf(o)
	}
	d.mu.Lock()
	if d.held.has(s.Workload) { // undone since it was planned
		d.mu.Unlock()
		cancel()
		return
	}
	d.moving[s.Workload] = m
	d.mu.Unlock()
	d.o.Go(func() {
		defer close(m.done)
		defer cancel()
		for i, x := range steps {
			// What is left of a guest's pages goes with its nodes.
			rest := x.Kind == plan.MovePages && i+1 < len(steps) && steps[i+1].Target.Kind == workload.InGuest
			waits := d.waiting(x)
			if rest && waits && ctx.Err() == nil {
				continue
			}
			if waits || ctx.Err() != nil {
				break
			}
			var err error
			if x.Kind == plan.MovePages {
				err = d.movePages(ctx, m, x)
			} else {
				err = d.applyOne(ctx, x)
			}
			if err != nil && (!rest || ctx.Err() != nil) {
				break
			}
		}
		// What a look that is under way has seen is older than this end.
		d.o.Observer.Stale(d.observerID(s.Workload))
		d.mu.Lock()
		d.movedAt[s.Workload] = end{d.looks, m.recorded}
		delete(d.moving, s.Workload)
		d.mu.Unlock()
	})
}

func (d *Daemon) movePages(ctx context.Context, m *move, s plan.Step) error {
	driver, ok := d.o.Drivers[s.Target.Kind]
	if !ok {
		return d.failed(s, nil, fmt.Errorf("no driver for %s workloads", s.Target.Kind))
	}
	// The record is durable before the first page moves, so that after a crash
	// it is known that pages were under way.
	if err := d.o.Store.SaveMove(m.record); err != nil {
		return d.failed(s, nil, fmt.Errorf("journal: %w", err))
	}
	d.event(plan.Event{Kind: plan.EventMove, Workload: s.Workload, Text: fmt.Sprintf(
		"moving %s to node %s. %s", size(s.Bytes), s.To, s.Reason)})
	saved := m.record.Started
	err := driver.Apply(ctx, s, func(p plan.Move) {
		d.mu.Lock()
		was := m.record.State
		m.record.Moved, m.record.Refused, m.record.RefusedBy, m.record.Why = p.Moved, p.Refused, p.RefusedBy, p.Why
		m.record.State = moveRunning
		if p.State == movePaused {
			m.record.State = movePaused
		}
		m.record.Seconds = d.o.Clock.Now().Sub(m.record.Started).Seconds()
		record, due := m.record, d.o.Clock.Now().Sub(saved) >= saveEvery || m.record.State != was
		d.mu.Unlock()
		if due {
			saved = d.o.Clock.Now()
			if err := d.o.Store.SaveMove(record); err != nil {
				d.o.Log.Error("save move", "workload", s.Workload, "err", err)
			}
		}
		if record.State != was {
			text := fmt.Sprintf("the move to node %s goes on", record.Home)
			if record.State == movePaused {
				text = fmt.Sprintf("the move to node %s rests after %s of %s: %s", record.Home, size(record.Moved), size(record.Planned), p.Why)
			}
			d.event(plan.Event{Kind: plan.EventMove, Workload: s.Workload, Text: text})
		}
	})
	return d.endMove(m, s, err)
}

// endMove records how a move ended.
func (d *Daemon) endMove(m *move, s plan.Step, err error) error {
	d.mu.Lock()
	m.record.Seconds = d.o.Clock.Now().Sub(m.record.Started).Seconds()
	switch {
	case err == nil:
		m.record.State = moveDone
		if m.record.Moved < s.Bytes/2 || immovable(m.record) { // the rest would not move either if tried at once
			d.putOff(s, "")
		} else {
			delete(d.tries, tryKey(s))
		}
	case errors.Is(err, context.Canceled):
		m.record.State = moveCancelled
	default:
		m.record.State = moveFailed
		m.record.Why = err.Error()
	}
	r := m.record
	d.moved[s.Workload] = r
	m.recorded = true
	d.mu.Unlock()
	if e := d.o.Store.SaveMove(r); e != nil {
		d.o.Log.Error("save move", "workload", s.Workload, "err", e)
	}
	switch r.State {
	case moveDone:
		text := fmt.Sprintf("moved %s to node %s in %.1f s", size(r.Moved), r.Home, r.Seconds)
		if r.Refused > 0 {
			text += fmt.Sprintf("; %s stayed: %s", size(r.Refused), r.Why)
		}
		d.event(plan.Event{Kind: plan.EventMove, Workload: s.Workload, Text: text, Move: &r})
	case moveCancelled:
		d.event(plan.Event{Kind: plan.EventMove, Workload: s.Workload, Text: fmt.Sprintf(
			"move to node %s cancelled after %s of %s", r.Home, size(r.Moved), size(r.Planned)), Move: &r})
	default:
		return d.failed(s, nil, err)
	}
	return err
}

// immovable reports whether a part of the memory that counts (see package place) was
// left behind for reasons that last.
func immovable(r plan.Move) bool {
	var lasting int64
	for _, x := range r.RefusedBy {
		if x.Cause.Lasts() {
			lasting += x.Bytes
		}
	}
	return lasting*100 >= r.Planned && lasting > 0
}

// tellMoved writes down what moves that have ended did to locality, once a look
// that began after their end has seen it.
func (d *Daemon) tellMoved(look uint64, s workload.Snapshot) {
	var events []plan.Event
	d.mu.Lock()
	for i := range s.Observations {
		o := &s.Observations[i]
		at, ended := d.movedAt[o.ID]
		if !ended || at.look >= look {
			continue
		}
		delete(d.movedAt, o.ID)
		r, ok := d.moved[o.ID]
		if !ok || !at.recorded {
			continue
		}
		if r.LocalityAfter = localityOf(o); r.LocalityAfter == nil {
			continue
		}
		d.moved[o.ID] = r
		text := fmt.Sprintf("locality after the move to node %s: %.0f %%", r.Home, 100**r.LocalityAfter)
		if r.LocalityBefore != nil {
			text += fmt.Sprintf(", %.0f %% before", 100**r.LocalityBefore)
		}
		events = append(events, plan.Event{Kind: plan.EventMove, Workload: o.ID, Text: text, Move: &r})
	}
	maps.DeleteFunc(d.movedAt, func(_ workload.ID, at end) bool { return at.look < look }) // gone
	d.mu.Unlock()
	for _, e := range events {
		if err := d.o.Store.SaveMove(*e.Move); err != nil {
			d.o.Log.Error("save move", "workload", e.Workload, "err", err)
		}
		d.event(e)
	}
}

// localityOf is the locality of an observation; nil when unknown.
func localityOf(o *workload.Observation) *float64 {
	l, ok := workload.Locality(o.RanOn, o.Memory)
	if !ok {
		return nil
	}
	return &l
}

// cancelMoves stops the moves of the workloads that match and waits for them.
// It must not be called with d.mu or d.changing held: an ending move takes both.
func (d *Daemon) cancelMoves(match func(workload.ID) bool) {
	d.mu.Lock()
	var waits []chan struct{}
	for id, m := range d.moving {
		if match(id) {
			m.cancel()
			waits = append(waits, m.done)
		}
	}
	d.mu.Unlock()
	for _, done := range waits {
		<-done
	}
}

func size(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) }
