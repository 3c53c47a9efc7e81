package openloop

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// answering is a server in memory that answers within a millisecond, but for one stall.
func answering(t *testing.T, stallAfter int, stall time.Duration) func() (net.Conn, error) {
	var n atomic.Int64 // requests of all connections
	return func() (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			for r := bufio.NewReader(there); ; n.Add(1) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
				if n.Load() == int64(stallAfter) {
					time.Sleep(stall)
				}
				if _, err := there.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		return here, nil
	}
}

func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }

// TestStallShows: a server that stands still for 300 ms of 10 s delays every request that was
// due meanwhile, which is 3 of 100. Who sends the next request only after an answer would see one.
func TestStallShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Dial: answering(t, 500, 300*time.Millisecond), Until: sleepUntil, Rate: 100, Conns: 1, Count: 10 * time.Second}
		got := l.Run()
		if got.Err != nil || got.Sent != 1000 || got.Took.TotalCount() != 1000 {
			t.Fatalf("%d sent, %d answered: %v", got.Sent, got.Took.TotalCount(), got.Err)
		}
		p50, p99 := got.Took.ValueAtQuantile(50), got.Took.ValueAtQuantile(99)
		if p50 > 1100 || p99 < 190_000 || p99 > 300_000 {
			t.Errorf("p50 %d µs, p99 %d µs; want 1 ms and about 200 ms", p50, p99)
		}
		if late := got.Late.Max(); late > 1 {
			t.Errorf("the clock was %d µs late: it waited for the server", late)
		}
	})
}

// TestEveryStallShows: whatever the rate and the stall, at least half of the requests that were
// due during it wait for more than half of it.
func TestEveryStallShows(t *testing.T) {
	for _, rate := range []float64{20, 100, 400} {
		for _, stall := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				l := Load{Dial: answering(t, int(rate), stall), Until: sleepUntil, Rate: rate, Conns: 1, Count: 6 * time.Second}
				got := l.Run()
				late := 0
				for _, b := range got.Took.Distribution() {
					if b.From > stall.Microseconds()/2 {
						late += int(b.Count)
					}
				}
				if want := int(rate * stall.Seconds() / 2); got.Err != nil || late < want {
					t.Errorf("%v a second, stall of %v: %d requests late, want %d: %v", rate, stall, late, want, got.Err)
				}
			})
		}
	}
}

// TestLateClockCounts: what the generator itself is late is in what a request takes.
func TestLateClockCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Dial: answering(t, -1, 0), Rate: 100, Conns: 4, Count: time.Second,
			Until: func(due time.Time) { time.Sleep(time.Until(due) + 20*time.Millisecond) }}
		got := l.Run()
		if p50 := got.Took.ValueAtQuantile(50); got.Err != nil || p50 < 20_000 {
			t.Errorf("p50 %d µs, want at least the 20 ms that the clock is late: %v", p50, got.Err)
		}
	})
}

// TestWarmUpIsNotCounted: a stall before the count begins is no part of it.
func TestWarmUpIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Duration(0)
		start := time.Now()
		l := Load{Dial: answering(t, 10, 200*time.Millisecond), Until: sleepUntil, Rate: 100, Conns: 2, Warm: time.Second, Count: time.Second,
			Begun: func() { begun = time.Since(start) }}
		got := l.Run()
		if got.Err != nil || got.Sent != 100 || got.Took.Max() > 5_000 || begun != time.Second {
			t.Errorf("%d counted, at most %d µs, begun after %v: %v", got.Sent, got.Took.Max(), begun, got.Err)
		}
	})
}

// TestEach: each answer that counts is shown as it comes, those of the warm-up are not.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var each []time.Duration
		l := Load{
			Dial: answering(t, -1, 0), Until: sleepUntil, Rate: 100, Conns: 1, Warm: time.Second, Count: time.Second,
			Each: func(took time.Duration) { each = append(each, took) },
		}
		got := l.Run()
		if got.Err != nil || len(each) != 100 || slices.Max(each) > 5*time.Millisecond {
			t.Errorf("%d answers shown, %v: %v", len(each), each, got.Err)
		}
	})
}

func TestDeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func() (net.Conn, error) {
			here, there := net.Pipe()
			there.Close()
			return here, nil
		}
		if got := (&Load{Dial: dial, Until: sleepUntil, Rate: 10, Conns: 1, Count: time.Second}).Run(); got.Err == nil {
			t.Error("a server that answers nothing is no error")
		}
	})
}

// TestTooLarge: a load that its queue cannot hold is refused before anything is asked.
func TestTooLarge(t *testing.T) {
	for _, l := range []Load{{Rate: 1e9, Count: time.Hour}, {Rate: 0, Count: time.Second}, {Rate: -5, Count: time.Second}} {
		l.Until, l.Conns = sleepUntil, 1
		l.Dial = func() (net.Conn, error) { t.Error("it asks"); return nil, net.ErrClosed }
		if got := l.Run(); got.Err == nil || got.Sent != 0 {
			t.Errorf("%v a second for %v: %v", l.Rate, l.Count, got.Err)
		}
	}
}
