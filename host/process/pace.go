package process

import (
	"context"
	"time"
)

// Clock is time, so that tests have their own.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// pacer is a token bucket that holds one batch: bytes moved now are paid for
// before the next batch begins, so that over any stretch of time the bandwidth
// is at most the cap and one batch.
type pacer struct {
	clock     Clock
	bandwidth int64 // bytes a second; not above 0 is no cap
	free      time.Time
}

// spend takes bytes out of the bucket.
func (p *pacer) spend(bytes int64) {
	if p.bandwidth <= 0 || bytes <= 0 {
		return
	}
	if now := p.clock.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(bytes) / float64(p.bandwidth) * float64(time.Second)))
}

// wait sleeps until the bucket allows another batch or ctx ends.
func (p *pacer) wait(ctx context.Context) error {
	if p.bandwidth <= 0 {
		return ctx.Err()
	}
	return sleep(ctx, p.clock, p.free.Sub(p.clock.Now()))
}

func sleep(ctx context.Context, clock Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-clock.After(d):
		return ctx.Err()
	}
}
