package daemon

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// metricClock has the test say when a wait is over.
type metricClock struct {
	waits chan time.Duration // asked for
	over  chan time.Time     // ends the newest
}

func (c *metricClock) Now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func (c *metricClock) After(d time.Duration) <-chan time.Time {
	c.waits <- d
	return c.over
}

// scripted is a metric that does one thing after the other.
type scripted struct {
	do  []func(ctx context.Context) (float64, bool, error)
	now int
}

func (s *scripted) Read(ctx context.Context) (float64, bool, error) {
	s.now++
	return s.do[s.now-1](ctx)
}

// TestFollowMetric: a value is read with its time; what is no number, fails, panics or hangs is a failure in words,
// the last value stays, and the next reading is tried.
func TestFollowMetric(t *testing.T) {
	hung := make(chan struct{})
	source := &scripted{do: []func(context.Context) (float64, bool, error){
		func(context.Context) (float64, bool, error) { return 0, false, nil },
		func(context.Context) (float64, bool, error) { return 1.5, true, nil },
		func(context.Context) (float64, bool, error) { return math.NaN(), true, nil },
		func(context.Context) (float64, bool, error) {
			return 0, false, errors.New("connection refused\x1b[31m" + strings.Repeat("é", 1<<20))
		},
		func(context.Context) (float64, bool, error) { panic("bug") },
		func(context.Context) (float64, bool, error) { <-hung; return 9, true, nil },
		func(context.Context) (float64, bool, error) { return 2.5, true, nil },
	}}
	clock := &metricClock{waits: make(chan time.Duration, 100), over: make(chan time.Time)}
	goal := workload.Goal{Metric: "p99", From: workload.FromCommand, Text: "x", Window: 10 * time.Second}
	d := &Daemon{o: Options{Metrics: []Metric{{goal, source}}, Clock: clock, Log: slog.New(slog.DiscardHandler)}}
	d.readings = make([]atomic.Pointer[workload.MetricReading], 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.follow(ctx, 0); close(ended) }()
	wait := 2 * time.Second // a fifth of the window
	next := func(want time.Duration) {
		for got := range clock.waits {
			if got == want {
				return
			}
		}
	}
	for i, x := range []struct {
		known  bool
		value  float64
		failed string
	}{
		{false, 0, ""}, {true, 1.5, ""}, {true, 1.5, "NaN"}, {true, 1.5, "connection refused"}, {true, 1.5, "reading the metric p99"},
	} {
		next(wait)
		now := d.metricsNow()[0]
		if now.Known != x.known || now.Value != x.value || !strings.Contains(now.Failed, x.failed) || x.failed == "" && now.Failed != "" || strings.Contains(now.Failed, "\x1b") || len(now.Failed) > 1000 {
			t.Errorf("reading %d: %.2000v", i, now)
		}
		if now.Known == now.At.IsZero() {
			t.Errorf("reading %d: at %v", i, now.At)
		}
		clock.over <- clock.Now()
	}
	next(readWithin + grace) // it hangs
	clock.over <- clock.Now()
	next(wait)
	if now := d.metricsNow()[0]; now.Failed == "" || now.Value != 1.5 {
		t.Errorf("hung: %+v", now)
	}
	close(hung)
	clock.over <- clock.Now()
	for _, value := range []float64{9, 2.5} { // what hung has come back, then the next
		next(wait)
		if now := d.metricsNow()[0]; now.Failed != "" || now.Value != value {
			t.Errorf("after it hung: %+v", now)
		}
		if value == 9 {
			clock.over <- clock.Now()
		}
	}
	cancel()
	<-ended
}
