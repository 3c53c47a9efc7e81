package daemon

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Metric is what the metric of a goal is read from: a command, a file or a query of the configuration.
type Metric struct {
	Goal   workload.Goal
	Source MetricSource
}

// Metrics returns goals, each with the source that of makes for it.
func Metrics(goals []workload.Goal, of func(*workload.Goal) MetricSource) (out []Metric) {
	for _, g := range goals {
		out = append(out, Metric{Goal: g, Source: of(&g)})
	}
	return out
}

// MetricSource reads one metric. ok is false while there is no new value.
type MetricSource interface {
	Read(ctx context.Context) (value float64, ok bool, err error)
}

const (
	// readWithin is how long one reading may take: a query that hangs must not hold up the next.
	readWithin = 10 * time.Second
	// leastRead and mostRead bound the time between two readings; in between it is a fifth of the window.
	leastRead = time.Second
	mostRead  = 10 * time.Second
	// mostFailed bounds why a reading failed, bytes: a server words it, and each scan carries it.
	mostFailed = 240
)

// follow reads one metric again and again until ctx ends. A reading that does not come back is given
// up, and no other is begun until it has.
func (d *Daemon) follow(ctx context.Context, i int) {
	m := &d.o.Metrics[i]
	wait := min(max(m.Goal.Window/5, leastRead), mostRead)
	now := workload.MetricReading{Key: m.Goal.Key()}
	var asked chan metricRead
	for ctx.Err() == nil {
		if asked == nil {
			asked = make(chan metricRead, 1)
			to := asked
			go func() { to <- d.readMetric(ctx, m) }()
		}
		select {
		case <-ctx.Done():
			return
		case a := <-asked:
			asked = nil
			switch {
			case a.err != nil:
				now.Failed = words.Clip(a.err.Error(), mostFailed)
			case a.ok:
				now.Value, now.Known = a.value, true
				now.Failed = ""
				now.At = d.o.Clock.Now().Round(0).UTC()
			default:
				now.Failed = ""
			}
		case <-d.o.Clock.After(readWithin + grace):
			now.Failed = plan.ErrNoAnswer.Error()
		}
		d.readings[i].Store(new(now))
		select {
		case <-ctx.Done():
			return
		case <-d.o.Clock.After(wait):
		}
	}
}

// metricRead is what one reading led to. ok is false while there is no new value.
type metricRead struct {
	value float64
	ok    bool
	err   error
}

// readMetric asks the source once.
func (d *Daemon) readMetric(ctx context.Context, m *Metric) (r metricRead) {
	defer d.caught("reading the metric "+m.Goal.Metric, &r.err)
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	r.value, r.ok, r.err = m.Source.Read(ctx)
	odd := math.IsNaN(r.value) || math.IsInf(r.value, 0)
	if r.err == nil && odd { // a snapshot cannot carry it
		return metricRead{err: fmt.Errorf("its value is %v; want a number", r.value)}
	}
	return r
}

// metricsNow returns the newest readings, for a snapshot.
func (d *Daemon) metricsNow() (out []workload.MetricReading) {
	for i := range d.readings {
		r := d.readings[i].Load()
		if r == nil {
			r = &workload.MetricReading{Key: d.o.Metrics[i].Goal.Key()}
		}
		out = append(out, *r)
	}
	return out
}
