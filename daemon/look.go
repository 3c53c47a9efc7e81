package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// scan looks at the host beside the loop, unless that is under way.
func (d *Daemon) scan() {
	if d.scanning {
		return
	}
	d.scanning, d.overdue = true, d.o.Clock.After(scanWithin)
	d.running++
	d.scans++
	number, began := d.scans, d.o.Clock.Now()
	d.next(control.Input{Begun: &control.Begun{Number: number}})
	d.catchUp()
	d.o.Go(func() {
		scan, err := d.look(number, began)
		d.arrive(arrival{Input: control.Input{Scan: scan}, unanswered: errors.Is(err, plan.ErrNoAnswer) ||
			errors.Is(err, context.DeadlineExceeded)})
	})
}

// pause is the time from one scan to the next: the period, and less while there is a hurry. Scans then take a
// third of a CPU at most, for ten seconds after work got a home of several nodes, and for a tenth of the time when such
// work comes again and again.
func (d *Daemon) pause() time.Duration {
	v := d.View()
	if !d.o.Settings.Enforce || !d.o.Clock.Now().Before(v.Wide.Hurry) {
		return d.o.Period
	}
	return min(d.o.Period, max(wakeRest, 2*v.Took))
}

// look asks the sources and the observer. The error is what the scan failed with.
func (d *Daemon) look(number uint64, began time.Time) (*control.Scan, error) {
	scan := &control.Scan{Number: number, Began: began.Round(0)}
	lost := d.refresh()
	var err error
	scan.Attention = d.attention()
	if scan.Snapshot, err = d.observe(scan.Attention); err != nil {
		scan.Failed = err.Error()
		return scan, err
	}
	scan.Snapshot.Metrics = d.metricsNow()
	for i, s := range d.o.Sources {
		err := d.claim(s, &d.claimed[i], scan.Snapshot.Host)
		c := d.claimed[i]
		if err = errors.Join(lost[i], err); err != nil {
			c.Failed = err.Error()
		}
		scan.Claims = append(scan.Claims, c)
	}
	scan.Took = d.o.Clock.Now().Sub(began)
	return scan, nil
}

func (d *Daemon) observe(with control.Attention) (seen workload.Snapshot, err error) {
	defer d.caught("looking at the host", &err)
	return d.o.Observer.Look(d.work, with)
}

// claim asks a source for its claims. When that panics those of before stand; a source that
// never answered may have workloads anywhere.
func (d *Daemon) claim(s Source, c *control.Claimed, h *topology.Host) (err error) {
	defer d.caught(s.Name()+" telling its workloads", &err)
	if c.Source == "" {
		*c = control.Claimed{Source: s.Name(),
			Claims: []workload.Claim{{Cgroups: []string{"*"}, Alone: words.Because(words.SourceFailed, s.Name())}}}
	}
	claims, problems := s.Claims(h)
	c.Claims, c.Problems = claims, problems
	return nil
}

// refresh brings all sources up to date, and waits for none longer than refreshWithin. One
// that has not come back from an earlier scan is not asked again until it has.
func (d *Daemon) refresh() []error {
	ctx, cancel := context.WithTimeout(d.work, refreshWithin)
	defer cancel()
	errs := make([]error, len(d.o.Sources))
	for i, s := range d.o.Sources {
		if d.refreshing[i] != nil {
			select {
			case <-d.refreshing[i]:
			default:
				errs[i] = plan.ErrNoAnswer
				continue
			}
		}
		done := make(chan error, 1)
		d.refreshing[i] = done
		go func() { done <- d.refreshOf(ctx, s) }()
	}
	late := after(refreshWithin + grace)
	for i := range d.o.Sources {
		if errs[i] != nil {
			continue
		}
		select {
		case errs[i] = <-d.refreshing[i]:
			d.refreshing[i] = nil
		case <-late:
			errs[i] = plan.ErrNoAnswer
		}
	}
	return errs
}

func (d *Daemon) refreshOf(ctx context.Context, s Source) (err error) {
	defer d.caught(s.Name()+" looking for its workloads", &err)
	return s.Refresh(ctx)
}

func (d *Daemon) processesOf(s Source) (all []workload.Process) {
	var bug error
	defer d.caught(s.Name()+" telling its processes", &bug)
	return s.Processes()
}

// Attention implements control.Standing.
func (d *Daemon) Attention() control.Attention { return d.View().Attention() }

// attention is Attention with the processes that sources know.
func (d *Daemon) attention() control.Attention {
	a := d.Attention()
	for _, s := range d.o.Sources {
		a.Registered = append(a.Registered, d.processesOf(s)...)
	}
	return a
}

// remember keeps an event at hand.
func (d *Daemon) remember(e plan.Event) {
	d.history = append(d.history, e)
	old := len(d.history) - keepEvents
	if old < keepEvents {
		return
	}
	if written, _ := eventAfter(d.history, d.outbox.saved); len(d.history) <= mostEvents {
		old = min(old, written)
	}
	if old >= keepEvents {
		d.history = slices.Clone(d.history[old:])
	}
}

// eventAfter is the index of the first event after the one numbered seq.
func eventAfter(all []plan.Event, seq uint64) (int, bool) {
	return slices.BinarySearchFunc(all, seq+1, func(e plan.Event, seq uint64) int { return cmp.Compare(e.Seq, seq) })
}
