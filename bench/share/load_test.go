package main

import (
	"bufio"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answering is a server in memory that answers within a millisecond, but for one stall.
func answering(t *testing.T, stallAfter int, stall time.Duration) func() (net.Conn, error) {
	n := 0
	return func() (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			for r := bufio.NewReader(there); ; n++ {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
				if n == stallAfter {
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
		l := load{dial: answering(t, 500, 300*time.Millisecond), until: sleepUntil, rate: 100, conns: 1, count: 10 * time.Second}
		got := l.run()
		if got.err != nil || got.sent != 1000 || got.took.TotalCount() != 1000 {
			t.Fatalf("%d sent, %d answered: %v", got.sent, got.took.TotalCount(), got.err)
		}
		p50, p99 := got.took.ValueAtQuantile(50), got.took.ValueAtQuantile(99)
		if p50 > 1100 || p99 < 190_000 || p99 > 300_000 {
			t.Errorf("p50 %d µs, p99 %d µs; want 1 ms and about 200 ms", p50, p99)
		}
		if late := got.late.Max(); late > 1 {
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
				l := load{dial: answering(t, int(rate), stall), until: sleepUntil, rate: rate, conns: 1, count: 6 * time.Second}
				got := l.run()
				late := 0
				for _, b := range got.took.Distribution() {
					if b.From > stall.Microseconds()/2 {
						late += int(b.Count)
					}
				}
				if want := int(rate * stall.Seconds() / 2); got.err != nil || late < want {
					t.Errorf("%v a second, stall of %v: %d requests late, want %d: %v", rate, stall, late, want, got.err)
				}
			})
		}
	}
}

// TestLateClockCounts: what the generator itself is late is in what a request takes.
func TestLateClockCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load{dial: answering(t, -1, 0), rate: 100, conns: 4, count: time.Second,
			until: func(due time.Time) { time.Sleep(time.Until(due) + 20*time.Millisecond) }}
		got := l.run()
		if p50 := got.took.ValueAtQuantile(50); got.err != nil || p50 < 20_000 {
			t.Errorf("p50 %d µs, want at least the 20 ms that the clock is late: %v", p50, got.err)
		}
	})
}

// TestWarmUpIsNotCounted: a stall before the count begins is no part of it.
func TestWarmUpIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Duration(0)
		start := time.Now()
		l := load{dial: answering(t, 10, 200*time.Millisecond), until: sleepUntil, rate: 100, conns: 2, warm: time.Second, count: time.Second,
			begun: func() { begun = time.Since(start) }}
		got := l.run()
		if got.err != nil || got.sent != 100 || got.took.Max() > 5_000 || begun != time.Second {
			t.Errorf("%d counted, at most %d µs, begun after %v: %v", got.sent, got.took.Max(), begun, got.err)
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
		if got := (&load{dial: dial, until: sleepUntil, rate: 10, conns: 1, count: time.Second}).run(); got.err == nil {
			t.Error("a server that answers nothing is no error")
		}
	})
}

// TestCrowdEnds: a crowd ends with the first of it, and says how.
func TestCrowdEnds(t *testing.T) {
	var out strings.Builder
	err := crowd(2, "frame=", []string{"sh", "-c", "echo frame=7; mkdir \"$0\" 2>/dev/null && exit 3; exec sleep 5", filepath.Join(t.TempDir(), "first")}, &out)
	if err == nil || err.Error() != "sh ended: exit status 3" || !strings.Contains(out.String(), "frame=") {
		t.Fatalf("%v, told %q", err, out.String())
	}
}
