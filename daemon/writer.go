package daemon

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// gather is how long an effect waits for others whose journal entries go to disk with
	// its own; idle likewise what nobody waits for: an entry that is not marked yet counts
	// as intended, and undo treats that like applied. Who asked waits for the disk alone.
	gather = 5 * time.Millisecond
	idle   = 500 * time.Millisecond

	// writeAgain is when what could not be written is tried again.
	writeAgain = 10 * time.Second
)

// outbox is what follows from inputs and must be on disk before it begins. It is the
// loop's alone.
type outbox struct {
	queue   []control.Output
	unsaved plan.Batch       // what could not be written
	writing []control.Output // under way
	refused string           // why the newest batch could not be written; "" when it was
	events  uint64           // the newest that is being written
	saved   uint64           // … that is
	due     <-chan time.Time
	urgency int // of due: 0 for none, 1 idle, 2 gather, 3 now
	written chan error
}

func urgency(out *control.Output) int {
	switch {
	case len(out.Replies) > 0:
		return 3
	case slices.ContainsFunc(out.Effects, func(e control.Effect) bool { return e.ID != 0 }):
		return 2
	}
	return 1
}

// send takes what follows from an input. What needs no disk begins at once, and nothing
// that is to stop waits for it. Nor does the observer: a scan that begins meanwhile would show
// what was so before, and the change would be made again.
func (d *Daemon) send(out control.Output) {
	b := &d.outbox
	for i := range out.Effects {
		switch e := &out.Effects[i]; e.Kind {
		case control.EffectCancel:
			d.cancel(e.Of)
		case control.EffectChanged, control.EffectMoved:
			d.tellObserver(e)
		}
	}
	if out.Save.Empty() {
		d.release(&out, nil)
		return
	}
	out.Plan, out.Balance = nil, nil // a disk that hangs must not fill memory
	b.queue = append(b.queue, out)
	u := urgency(&out)
	if d.o.Inline {
		u = 3
	}
	if u <= b.urgency {
		return
	}
	switch b.urgency = u; u {
	case 3:
		d.write()
	case 2:
		b.due = time.After(gather)
	default:
		b.due = time.After(idle)
	}
}

// cancel stops an effect. One that waits for the disk is not begun.
func (d *Daemon) cancel(id uint64) {
	if stop := d.cancels[id]; stop != nil {
		stop()
		return
	}
	for _, outs := range [][]control.Output{d.outbox.queue, d.outbox.writing} {
		for i := range outs {
			if slices.ContainsFunc(outs[i].Effects, func(e control.Effect) bool { return e.ID == id }) {
				d.cancelled[id] = true
				return
			}
		}
	}
}

// write brings what has gathered to disk, beside the loop. While something else is being
// written it waits for that.
func (d *Daemon) write() {
	b := &d.outbox
	if len(b.queue) == 0 {
		return
	}
	if b.due, b.urgency = nil, 3; b.writing != nil {
		return
	}
	saves := []*plan.Batch{&b.unsaved}
	for i := range b.queue {
		saves = append(saves, &b.queue[i].Save)
	}
	batch := merged(saves)
	b.writing = b.queue
	b.queue = nil
	b.unsaved = batch
	b.urgency = 0
	b.events = b.saved
	if n := len(batch.Events); n > 0 {
		b.events = batch.Events[n-1].Seq
	}
	if d.o.Inline {
		d.wrote(d.commit(batch))
		return
	}
	go func() { b.written <- d.commit(batch) }()
}

func (d *Daemon) commit(b plan.Batch) (err error) {
	defer d.caught("writing to the store", &err)
	return d.o.Store.Commit(b)
}

// writeDue writes when the time has come, also again what could not be written.
func (d *Daemon) writeDue() {
	b := &d.outbox
	if len(b.queue) == 0 && !b.unsaved.Empty() {
		b.queue = []control.Output{{}}
	}
	d.write()
}

// wrote lets begin what has been waiting for the disk.
func (d *Daemon) wrote(err error) {
	b := &d.outbox
	out := b.writing
	b.writing = nil
	if err == nil {
		b.unsaved, b.saved = plan.Batch{}, b.events
		if b.refused != "" {
			b.refused = ""
			d.o.Log.Info("the state folder can be written again")
			d.publish()
		}
	} else {
		if n := len(b.unsaved.Events); n > mostEvents {
			b.unsaved.Events = slices.Clone(b.unsaved.Events[n-keepEvents:]) // the log has the others
		}
		if text := err.Error(); text != b.refused { // it is tried again and again
			b.refused = text
			d.o.Log.Error("write state", "err", err)
			d.publish()
		}
		if b.urgency == 0 {
			b.urgency, b.due = 1, time.After(writeAgain)
		}
	}
	for i := range out {
		d.release(&out[i], err)
	}
	if len(b.queue) > 0 && b.urgency == 3 {
		d.write()
	}
}

// release begins effects and answers. Without a journal nothing is changed; what puts
// settings back, or only looks, goes on.
func (d *Daemon) release(out *control.Output, unwritten error) {
	if len(out.Effects) > 0 || len(out.Replies) > 0 {
		d.catchUp()
	}
	for _, e := range out.Effects {
		var f *control.Failure
		switch {
		case d.cancelled[e.ID]:
			delete(d.cancelled, e.ID)
			f = failure(context.Canceled)
		case unwritten != nil && e.Kind == control.EffectApply:
			f = &control.Failure{Code: control.Failed,
				Text: words.Because(words.NotJournalled, unwritten.Error()).String()}
		default:
			d.begin(e)
			continue
		}
		d.running++
		d.o.Go(func() { d.post(control.Input{Result: &control.Result{ID: e.ID, Failed: f}}) })
	}
	for _, r := range out.Replies {
		if unwritten != nil && r.Failed == nil {
			r.Unwritten = unwritten.Error()
		}
		d.answer(r)
	}
}

func (d *Daemon) answer(r control.Reply) {
	if a, waits := d.answers[r.ID]; waits {
		a.answer <- r // it has room for one
		delete(d.answers, r.ID)
	}
}

// merged is one batch of several: of each entry and move the newest.
func merged(all []*plan.Batch) (out plan.Batch) {
	entries, moves := map[uint64]int{}, map[workload.ID]int{}
	for _, b := range all {
		for _, e := range b.Entries {
			out.Entries = newest(out.Entries, entries, e.Seq, e)
		}
		for _, m := range b.Moves {
			out.Moves = newest(out.Moves, moves, m.Workload, m)
		}
		if b.Placements != nil {
			out.Placements = b.Placements
		}
		out.Events = append(out.Events, b.Events...)
		if len(b.Values) > 0 && out.Values == nil {
			out.Values = map[string]any{}
		}
		maps.Copy(out.Values, b.Values)
	}
	return out
}

// newest puts v in the place of what has its key, which at knows, or at the end.
func newest[K comparable, V any](all []V, at map[K]int, key K, v V) []V {
	if i, ok := at[key]; ok {
		all[i] = v
		return all
	}
	at[key] = len(all)
	return append(all, v)
}
