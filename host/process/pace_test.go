package process

import (
	"context"
	"errors"
	"testing"
	"time"
)

// askClock stands still and tells how long each one waits.
type askClock struct{ asked chan time.Duration }

func (askClock) Now() time.Time { return time.Unix(1, 0) }
func (c askClock) After(d time.Duration) <-chan time.Time {
	c.asked <- d
	return nil
}

// TestPaceAfterCancelling: no two batches go at the same instant, whoever of those
// that wait is cancelled, and the turn of the last is used again.
func TestPaceAfterCancelling(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel int // of the batches at 0, 1, 2 and 3 s
		want   time.Duration
	}{
		{"the first that waits", 1, 4 * time.Second},
		{"one in the middle", 2, 4 * time.Second},
		{"the last", 3, 3 * time.Second},
	} {
		clock := askClock{make(chan time.Duration)}
		p := &pacer{clock: clock, bandwidth: 1}
		var cancels []context.CancelFunc
		var ends []chan error
		take := func() time.Duration {
			ctx, cancel := context.WithCancel(t.Context())
			end := make(chan error, 1)
			cancels, ends = append(cancels, cancel), append(ends, end)
			go func() { end <- p.take(ctx, 1) }()
			return <-clock.asked
		}
		if err := p.take(t.Context(), 1); err != nil { // goes at once
			t.Fatal(err)
		}
		for n := 1; n <= 3; n++ {
			if got := take(); got != time.Duration(n)*time.Second {
				t.Fatalf("%s: batch %d waits %v", c.name, n, got)
			}
		}
		cancels[c.cancel-1]()
		if err := <-ends[c.cancel-1]; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if got := take(); got != c.want {
			t.Errorf("%s is cancelled: the next waits %v, want %v", c.name, got, c.want)
		}
		for _, cancel := range cancels {
			cancel()
		}
	}
}
