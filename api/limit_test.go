package api

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// R12: an ordinary user who opens hundreds of connections keeps nobody else out.
func TestManyConnectionsOfOneUser(t *testing.T) {
	var uid atomic.Int64
	socket := listeningTo(t, &answers{}, Access{Group: -1, OthersMayRead: true}, func(net.Conn) (peer, error) {
		return peer{uid: int(uid.Load())}, nil
	})
	// open connects as a user and reports whether the daemon keeps the connection.
	open := func(as int) bool {
		t.Helper()
		uid.Store(int64(as))
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		// The second request ends on an answer; a connection that is refused ends before.
		if _, err := io.WriteString(c, "GET /v1/none HTTP/1.1\r\nHost: homenode\r\n\r\n"); err != nil {
			return false
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err = c.Read(make([]byte, 1))
		return err == nil
	}
	const user = 1 << 20
	kept := 0
	for range 300 {
		if open(user) {
			kept++
		}
	}
	if kept != maxPerUser {
		t.Errorf("a user has %d connections, want %d", kept, maxPerUser)
	}
	if !open(user + 1) {
		t.Error("another user is kept out")
	}
	// With the UIDs of a user namespace.
	for i := range 300 {
		open(user + 2 + i)
	}
	for i := range keptForRoot {
		if !open(0) {
			t.Fatalf("root is kept out of connection %d", i+1)
		}
	}
	uid.Store(0)
	if c, err := Dial(socket); err != nil {
		t.Error(err)
	} else if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "the daemon closed the connection") {
		t.Errorf("one connection too many: %v", err)
	}
}

func TestSlotsComeBack(t *testing.T) {
	s := slots[int]{users: map[int]int{}}
	take := func(uid int) bool {
		each, all := connectionsOf(uid)
		return s.take(uid, each, all)
	}
	for range 3 {
		for i := range maxPerUser {
			if !take(1 << 20) {
				t.Fatalf("connection %d refused", i+1)
			}
		}
		if take(1 << 20) {
			t.Error("one too many")
		}
		for range maxPerUser {
			s.give(1 << 20)
		}
	}
	if s.all != 0 || len(s.users) != 0 {
		t.Errorf("left: %+v", s.users)
	}
}

func TestRequestRates(t *testing.T) {
	r := rates[int]{buckets: map[int]bucket{}}
	at := time.Unix(1e9, 0)
	for i := range requestBurst {
		if !r.take(1<<20, at) {
			t.Fatalf("request %d refused", i+1)
		}
	}
	if r.take(1<<20, at) {
		t.Error("one too many at once")
	}
	if !r.take(1<<20+1, at) {
		t.Error("others wait, too")
	}
	for i := range requestsPerSecond {
		if !r.take(1<<20, at.Add(time.Second)) {
			t.Errorf("request %d after a second refused", i+1)
		}
	}
	// Thousands of UIDs take no memory, and not for ever.
	for i := range 10_000 {
		r.take(1<<21+i, at)
	}
	if len(r.buckets) > mostBuckets {
		t.Errorf("%d buckets", len(r.buckets))
	}
	if !r.take(1<<20, at.Add(time.Minute)) {
		t.Error("refused after a minute")
	}
}

// oneByOne answers one question at a time, as the daemon does, each when it is told to.
type oneByOne struct {
	answers
	turn, done chan struct{}
	waiting    atomic.Int32
}

func (b *oneByOne) WhatIf(ctx context.Context, _ WhatIf) (WhatIfAnswer, error) {
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	<-b.done
	return WhatIfAnswer{Schema: "homenode-what-if/1"}, nil
}

// TestQuestionsOfManyUsers: users with as many UIDs as they like do not keep root waiting behind all
// their questions, each of which takes a CPU for seconds.
func TestQuestionsOfManyUsers(t *testing.T) {
	b := &oneByOne{turn: make(chan struct{}, 1), done: make(chan struct{})}
	h := handler(t.Context(), b, Access{Group: -1})
	ask := func(uid int) int {
		q := httptest.NewRequest("POST", "/v1/what-if", strings.NewReader(`{"spec":"{name: x, cpus: 1}"}`))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q.WithContext(context.WithValue(q.Context(), peerKey{}, peer{uid: uid})))
		return w.Code
	}
	var all sync.WaitGroup
	var refused atomic.Int32
	const users, each = 8, 6
	for i := range users {
		for range each {
			all.Go(func() {
				if ask(1<<20+i) == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
	}
	for refused.Load()+b.waiting.Load() < users*each {
		time.Sleep(time.Millisecond)
	}
	if n := b.waiting.Load(); n != questionsAtOnce {
		t.Errorf("%d questions of others wait before root's, want %d", n, questionsAtOnce)
	}
	all.Go(func() {
		if code := ask(0); code != 200 {
			t.Errorf("root: %d", code)
		}
	})
	for b.waiting.Load() <= questionsAtOnce && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	close(b.done)
	all.Wait()
}

// slow takes longer to undo than a request may take to be read.
type slow struct{ answers }

func (*slow) Undo(ctx context.Context, w Which) (UndoResult, error) {
	select {
	case <-time.After(time.Second):
		return UndoResult{Schema: "homenode-undo/2"}, nil
	case <-ctx.Done():
		return UndoResult{}, context.Cause(ctx)
	}
}

func TestLongAnswerIsNotCut(t *testing.T) {
	read, write := readWithin, writeWithin
	readWithin, writeWithin = 200*time.Millisecond, 200*time.Millisecond
	t.Cleanup(func() { readWithin, writeWithin = read, write })
	c, err := Dial(listeningTo(t, &slow{}, Access{}, peerOf))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if u, err := c.Undo(t.Context(), Which{All: true}); err != nil || u.Schema == "" {
		t.Errorf("undo: %+v, %v", u, err)
	}
}

// broken panics on everything but history.
type broken struct{ answers }

func (*broken) Status(context.Context) (Status, error) { panic("out of cheese") }
func (*broken) Events(context.Context, uint64) iter.Seq[plan.Event] {
	return func(func(plan.Event) bool) { panic("no more") }
}

func TestPanicIsOneFailedRequest(t *testing.T) {
	c, err := Dial(listening(t, &broken{}, Access{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var failed *Error
	if _, err := c.Status(t.Context()); !errors.As(err, &failed) || failed.Code != Failed || !strings.Contains(failed.Text, "out of cheese") {
		t.Errorf("status: %v", err)
	}
	if err := c.Events(t.Context(), 0, func(plan.Event) error { return nil }); err == nil {
		t.Error("events: no error")
	}
	if _, err := c.History(t.Context(), HistoryQuery{Limit: 1}); err != nil {
		t.Errorf("history afterwards: %v", err)
	}
}

// happening has events for ever.
type happening struct{ answers }

func (*happening) Events(ctx context.Context, since uint64) iter.Seq[plan.Event] {
	return func(yield func(plan.Event) bool) {
		for n := since + 1; n <= since+3; n++ {
			if !yield(plan.Event{Seq: n, Text: "line one\nline two"}) {
				return
			}
		}
		<-ctx.Done()
	}
}

func TestEvents(t *testing.T) {
	was := quietFor
	quietFor = 300 * time.Millisecond    // a busy machine is late by less than twice as much
	t.Cleanup(func() { quietFor = was }) // after the daemon and its streams
	ended := make(chan error, 1)
	t.Cleanup(func() { // after the daemon has stopped
		if err := <-ended; err == nil {
			t.Error("a stream that the daemon ended is no error")
		}
	})
	c, err := Dial(listening(t, &happening{}, Access{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []uint64
	err = c.Events(ctx, 7, func(ev plan.Event) error {
		got = append(got, ev.Seq)
		if ev.Text != "line one\nline two" {
			t.Errorf("text %q", ev.Text)
		}
		if len(got) == 3 {
			time.AfterFunc(4*quietFor, cancel) // longer than the stream may be silent
		}
		return nil
	})
	if err != nil || len(got) != 3 || got[0] != 8 || got[2] != 10 || ctx.Err() == nil {
		t.Errorf("%v, %v", got, err)
	}
	if err := c.Events(ctx, 7, nil); err != nil {
		t.Errorf("interrupted before it began: %v", err)
	}
	// A daemon that stops ends its streams.
	begun := make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	go func() {
		ended <- c.Events(context.Background(), 0, func(plan.Event) error { once(); return nil })
		once()
	}()
	<-begun
	if c, err := Dial(listening(t, &answers{}, Access{})); err != nil {
		t.Error(err)
	} else if err := c.Events(t.Context(), 0, nil); err == nil || !strings.Contains(err.Error(), "nothing here says") {
		t.Errorf("no source: %v", err)
	}
}

// A member of the socket's group books nothing in the name of a process that is not the one
// that asks: of root, of another user, one that has ended.
func TestHomeForAnotherProcess(t *testing.T) {
	var uid atomic.Int64
	socket := listeningTo(t, &answers{}, Access{Group: 7}, func(net.Conn) (peer, error) {
		return peer{uid: int(uid.Load()), gid: 7, pid: 4711}, nil
	})
	ask := func(as, pid int) Code {
		uid.Store(int64(as))
		c, err := Dial(socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Place(t.Context(), Want{Class: workload.Dedicated, CPUs: 1, Process: workload.Process{PID: pid, Start: 9}})
		var e *Error
		if errors.As(err, &e) {
			return e.Code
		}
		return ""
	}
	for _, pid := range []int{1, 4710, 4712, 1 << 22, -1} {
		if got := ask(1<<20, pid); got != Forbidden {
			t.Errorf("process %d: %q, want it to be refused", pid, got)
		}
		if got := ask(0, pid); got == Forbidden {
			t.Errorf("root may not ask for process %d", pid)
		}
	}
	for _, pid := range []int{0, 4711} {
		if got := ask(1<<20, pid); got == Forbidden {
			t.Errorf("process %d is refused", pid)
		}
	}
}

// counting counts its answers by status.
type counting struct {
	broken
	answered chan int
}

func (c *counting) Metrics() http.Handler       { return http.NotFoundHandler() }
func (c *counting) Answered(_ string, code int) { c.answered <- code }

// TestPanicIsCountedAsFailed: so is what it was answered with.
func TestPanicIsCountedAsFailed(t *testing.T) {
	b := &counting{answered: make(chan int, 2)}
	c, err := Dial(listening(t, b, Access{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Status(t.Context())
	if code := <-b.answered; code != http.StatusInternalServerError {
		t.Errorf("counted as %d", code)
	}
	c.History(t.Context(), HistoryQuery{Limit: 1})
	if code := <-b.answered; code != http.StatusOK {
		t.Errorf("history: counted as %d", code)
	}
}
