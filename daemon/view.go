package daemon

import (
	"context"
	"iter"
	"math"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
)

// View is the state as it is published: whole, and never changed.
type View struct {
	control.View
	Stalled string        // why nothing is decided any more; "" when it is
	Unseen  string        // why the newest scan saw nothing; "" when it did
	Refused string        // why what follows cannot be written down; "" when it can
	Lost    int64         // calls that were given up and have not come back
	Events  []plan.Event  // the newest
	Trend   *api.Trend    // since the daemon started; nil before the first scan
	next    chan struct{} // closed when a newer View is there
}

// View is the newest. Reading it waits for nobody.
func (d *Daemon) View() *View { return d.view.Load() }

// Changed is closed when there is news after what Status tells now.
func (d *Daemon) Changed() <-chan struct{} { return d.View().next }

// Decisions is what was decided on each workload at the newest look.
func (d *Daemon) Decisions() []plan.Decision { return d.View().Plan.Report.Decisions }

// looked is the newest View once the first scan has ended: before that a name means nothing.
func (d *Daemon) looked(ctx context.Context) (*View, error) {
	for {
		v := d.View()
		if v.Scans > 0 || v.Unseen != "" || v.Stalled != "" {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.ended:
			return nil, errEnded
		case <-v.next:
		}
	}
}

// publish makes the state as it is now the newest View. It is done once for all inputs
// that have come, and before anything begins or is answered that followed from them.
func (d *Daemon) publish() {
	d.behind = false
	v := &View{Stalled: d.stalled, Unseen: d.unseen, Refused: d.outbox.refused, Lost: d.lost.Load(), Events: d.history,
		next: make(chan struct{})}
	if d.stalled == "" {
		v.View = d.state.View()
	} else { // the state may be half changed
		v.View = d.View().View
	}
	v.Trend = d.trend.Look(&v.View)
	if d.seen != nil {
		v.Snapshot = *d.seen
	}
	if old := d.view.Swap(v); old != nil {
		close(old.next)
	}
}

func (d *Daemon) catchUp() {
	if d.behind {
		d.publish()
	}
}

// Events is the events after the one numbered since, then each as it comes, until ctx
// ends. Those of long ago are from the store, also for who falls behind; when that cannot be
// read it ends. A number that no event has yet is of before a crash, or of another state folder:
// it begins with what is newer than the newest.
func (d *Daemon) Events(ctx context.Context, since uint64) iter.Seq[plan.Event] {
	return func(yield func(plan.Event) bool) {
		if n := len(d.View().Events); n == 0 || since > d.View().Events[n-1].Seq { // the store may be ahead
			if newest, err := newestEvent(d.o.Store); err == nil {
				since = min(since, newest)
			}
		}
		for {
			v := d.View()
			events := v.Events
			if len(events) > 0 && since+1 < events[0].Seq {
				old,
					err := d.o.Store.History(plan.EventQuery{Limit: int(min(events[len(events)-1].Seq-since,
					math.MaxInt32))})
				if err != nil {
					d.o.Log.Warn("read the history", "err", err)
					return
				}
				events = withNewest(old, events)
			}
			for _, e := range events {
				if e.Seq > since {
					if since = e.Seq; !yield(e) {
						return
					}
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-d.ended:
				return
			case <-v.next:
			}
		}
	}
}
