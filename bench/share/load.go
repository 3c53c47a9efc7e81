package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// load asks a server at a constant rate, whatever it answers: an open loop. A request is due
// at its own time; it is sent by the first connection that is free then, and what it takes is
// counted from when it was due, so that waiting for a connection counts.
type load struct {
	dial  func() (net.Conn, error)
	until func(time.Time) // sleeps until then
	rate  float64         // requests a second
	conns int
	warm  time.Duration // before anything is counted
	count time.Duration
	begun func() // what is sent from now on is counted
}

// loaded is what a load found, times in µs.
type loaded struct {
	took *hdrhistogram.Histogram // from when a request was due to its last byte
	late *hdrhistogram.Histogram // from when it was due to when the generator was awake
	sent int                     // counted requests; all of them are answered, or failed
	bad  int                     // answers that were no 200
	err  error                   // why the load ended before its time
}

// Times are kept to three digits, up to two minutes.
func histogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120e6, 3) }

func record(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

// due is when request i is to be sent.
func (l *load) due(start time.Time, i int) time.Time {
	return start.Add(time.Duration(float64(i) / l.rate * float64(time.Second)))
}

type asked struct {
	due     time.Time
	counted bool
}

func (l *load) run() loaded {
	all := int((l.warm + l.count).Seconds() * l.rate)
	first := int(l.warm.Seconds() * l.rate)
	out := loaded{took: histogram(), late: histogram()}
	queue := make(chan asked, all) // the clock never waits for the server
	var mu sync.Mutex
	var done sync.WaitGroup
	for range l.conns {
		done.Go(func() {
			if err := l.answer(queue, &mu, &out); err != nil {
				mu.Lock()
				defer mu.Unlock()
				out.err = err
			}
		})
	}
	start := time.Now()
	for i := range all {
		due := l.due(start, i)
		l.until(due)
		if i == first && l.begun != nil {
			l.begun()
		}
		if i >= first {
			record(out.late, time.Since(due))
			out.sent++
		}
		queue <- asked{due, i >= first}
	}
	close(queue)
	done.Wait()
	if lost := out.sent - int(out.took.TotalCount()) - out.bad; out.err == nil && lost > 0 {
		out.err = fmt.Errorf("%d requests without an answer", lost)
	}
	return out
}

// answer sends what is due over one connection.
func (l *load) answer(queue <-chan asked, mu *sync.Mutex, out *loaded) error {
	c, err := l.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for a := range queue {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\n\r\n"); err != nil {
			return fmt.Errorf("send a request: %w", err)
		}
		answer, err := http.ReadResponse(r, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		took := time.Since(a.due)
		if !a.counted {
			continue
		}
		mu.Lock()
		if answer.StatusCode == http.StatusOK {
			record(out.took, took)
		} else {
			out.bad++
		}
		mu.Unlock()
	}
	return nil
}
