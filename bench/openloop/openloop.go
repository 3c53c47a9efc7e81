// Package openloop asks a server at a constant rate, whatever it answers.
package openloop

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// Load asks a server at a constant rate, whatever it answers: an open loop. A request is due
// at its own time; it is sent by the first connection that is free then, and what it takes is
// counted from when it was due, so that waiting for a connection counts.
type Load struct {
	Dial  func() (net.Conn, error)
	Until func(time.Time) // sleeps until then
	Ask   Ask             // HTTP, when nil
	Rate  float64         // requests a second
	Conns int
	Warm  time.Duration // before anything is counted
	Count time.Duration
	Begun func()                   // what is sent from now on is counted
	Each  func(took time.Duration) // called with what each counted answer took
}

// Ask sends request n over a connection and reads the answer. ok is false for an answer that is no success.
type Ask func(c io.Writer, r *bufio.Reader, n int) (ok bool, err error)

// Result is what a load found, times in µs.
type Result struct {
	Took *hdrhistogram.Histogram // from when a request was due to its last byte
	Late *hdrhistogram.Histogram // from when it was due to when the generator was awake
	Sent int                     // counted requests; all of them are answered, or failed
	Bad  int                     // answers that were no success
	Err  error                   // why the load ended before its time
}

// Histogram is an empty one: times are kept to three digits, up to two minutes.
func Histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120e6, 3) }

// Record counts one time.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

// due is when request i is to be sent.
func (l *Load) due(start time.Time, i int) time.Time {
	return start.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
}

// Most is the most requests of a load: each takes 8 bytes of the queue, 400 MB in all.
const Most = 50_000_000

// Check returns why a load cannot run; nil where it can.
func (l *Load) Check() error {
	if all := (l.Warm + l.Count).Seconds() * l.Rate; !(all >= 1 && all <= Most) {
		return fmt.Errorf("%.0f requests (%.0f a second for %v); want 1 to %d: change the rate or the time", all,
			l.Rate, l.Warm+l.Count, Most)
	}
	return nil
}

// Run asks for as long as it should.
func (l *Load) Run() Result {
	out := Result{Took: Histogram(), Late: Histogram()}
	if out.Err = l.Check(); out.Err != nil {
		return out
	}
	all := int((l.Warm + l.Count).Seconds() * l.Rate)
	first := int(l.Warm.Seconds() * l.Rate)
	queue := make(chan int, all) // the clock never waits for the server
	start := time.Now()
	var mu sync.Mutex
	var done sync.WaitGroup
	for range l.Conns {
		done.Go(func() {
			if err := l.answer(queue, start, first, &mu, &out); err != nil {
				mu.Lock()
				defer mu.Unlock()
				out.Err = err
			}
		})
	}
	for i := range all {
		due := l.due(start, i)
		l.Until(due)
		if i == first && l.Begun != nil {
			l.Begun()
		}
		if i >= first {
			Record(out.Late, time.Since(due))
			out.Sent++
		}
		queue <- i
	}
	close(queue)
	done.Wait()
	if lost := out.Sent - int(out.Took.TotalCount()) - out.Bad; out.Err == nil && lost > 0 {
		out.Err = fmt.Errorf("%d requests without an answer", lost)
	}
	return out
}

// answer sends what is due over one connection.
func (l *Load) answer(queue <-chan int, start time.Time, first int, mu *sync.Mutex, out *Result) error {
	c, err := l.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	ask := l.Ask
	if ask == nil {
		ask = HTTP
	}
	for i := range queue {
		ok, err := ask(c, r, i)
		if err != nil {
			return err
		}
		took := time.Since(l.due(start, i))
		if i < first {
			continue
		}
		mu.Lock()
		if ok {
			Record(out.Took, took)
			if l.Each != nil {
				l.Each(took)
			}
		} else {
			out.Bad++
		}
		mu.Unlock()
	}
	return nil
}

// HTTP asks for the first page of a web server.
func HTTP(c io.Writer, r *bufio.Reader, _ int) (ok bool, err error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\n\r\n"); err != nil {
		return false, fmt.Errorf("send a request: %w", err)
	}
	answer, err := http.ReadResponse(r, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	if err != nil {
		return false, fmt.Errorf("read an answer: %w", err)
	}
	return answer.StatusCode == http.StatusOK, nil
}

// SleepTo sleeps by the kernel's own timer: Go's are of a millisecond where nothing else runs
// (runtime/netpoll_epoll.go).
func SleepTo(due time.Time) {
	for d := time.Until(due); d > 0; d = time.Until(due) {
		ts := unix.NsecToTimespec(int64(d))
		unix.Nanosleep(&ts, nil)
	}
}
