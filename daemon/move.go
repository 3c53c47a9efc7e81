package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// States of a page move.
const (
	moveRunning     = "running"
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
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	record plan.Move // guarded by Daemon.mu
}

// startMove takes the steps beside the loop in their order: page moves and memory
// nodes. The first that fails ends it.
func (d *Daemon) startMove(ctx context.Context, steps []plan.Step) {
	s := steps[0]
	for _, x := range steps {
		if x.Kind == plan.MovePages {
			s = x
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &move{ctx: ctx, cancel: cancel, done: make(chan struct{}), record: plan.Move{
		Workload: s.Workload, Home: s.To, Planned: s.Bytes, Started: d.o.Clock.Now(), State: moveRunning}}
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
		for _, x := range steps {
			if d.waiting(x) || ctx.Err() != nil {
				break
			}
			var err error
			if x.Kind == plan.MovePages {
				err = d.movePages(ctx, m, x)
			} else {
				err = d.applyOne(ctx, x)
			}
			if err != nil {
				break
			}
		}
		d.mu.Lock()
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
		m.record.Moved, m.record.Refused, m.record.Why = p.Moved, p.Refused, p.Why
		m.record.Seconds = d.o.Clock.Now().Sub(m.record.Started).Seconds()
		record, due := m.record, d.o.Clock.Now().Sub(saved) >= saveEvery
		d.mu.Unlock()
		if due {
			saved = d.o.Clock.Now()
			d.o.Store.SaveMove(record)
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
		if m.record.Moved < s.Bytes/2 { // the rest would not move either if tried at once
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
	d.mu.Unlock()
	d.o.Observer.Stale(s.Workload)
	if e := d.o.Store.SaveMove(r); e != nil {
		d.o.Log.Error("save move", "workload", s.Workload, "err", e)
	}
	switch r.State {
	case moveDone:
		text := fmt.Sprintf("moved %s to node %s in %.1f s", size(r.Moved), r.Home, r.Seconds)
		if r.Refused > 0 {
			text += fmt.Sprintf("; %s stayed: %s", size(r.Refused), r.Why)
		}
		d.event(plan.Event{Kind: plan.EventMove, Workload: s.Workload, Text: text})
	case moveCancelled:
		d.event(plan.Event{Kind: plan.EventMove, Workload: s.Workload, Text: fmt.Sprintf(
			"move to node %s cancelled after %s of %s", r.Home, size(r.Moved), size(r.Planned))})
	default:
		return d.failed(s, nil, err)
	}
	return err
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
