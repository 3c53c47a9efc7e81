package process

import (
	"context"
	"sync"
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

// pacer is a token bucket that holds one batch, shared by all moves: bytes moved
// now are paid for before the next batch begins, so that over any stretch of time
// the bandwidth is at most the cap and one batch. Moves take turns, in the order
// they ask.
type pacer struct {
	clock     Clock
	bandwidth int64 // bytes a second; not above 0 is no cap

	mu   sync.Mutex
	free time.Time // when the next batch may go; guarded by mu
}

// take sleeps until a batch of that many bytes may go, or ctx ends.
func (p *pacer) take(ctx context.Context, bytes int64) error {
	if p.bandwidth <= 0 {
		return ctx.Err()
	}
	cost := time.Duration(float64(bytes) / float64(p.bandwidth) * float64(time.Second))
	p.mu.Lock()
	now := p.clock.Now()
	if p.free.Before(now) {
		p.free = now
	}
	wait := p.free.Sub(now)
	turn := p.free
	p.free = turn.Add(cost)
	after := p.free
	p.mu.Unlock()
	err := sleep(ctx, p.clock, wait)
	if err != nil {
		p.mu.Lock()
		// Given back, but not when others wait behind: the next to ask would go at the
		// same instant as the last of them.
		if p.free.Equal(after) {
			p.free = turn
		}
		p.mu.Unlock()
	}
	return err
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
