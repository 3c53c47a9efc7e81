package api

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// openAs connects to a socket and reports whether the daemon answers and keeps the connection.
func openAs(t *testing.T, socket string) bool {
	t.Helper()
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

// R12: an ordinary user who opens hundreds of connections keeps nobody else out.
func TestManyConnectionsOfOneUser(t *testing.T) {
	var uid atomic.Int64
	socket := listeningTo(t, &answers{}, Access{Group: -1, OthersMayRead: true}, func(net.Conn) (peer, error) {
		return peer{uid: int(uid.Load())}, nil
	})
	open := func(as int) bool {
		uid.Store(int64(as))
		return openAs(t, socket)
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
	// As many users as there are: none keeps one who comes later out, nor root.
	for i := range 300 {
		open(user + 2 + i%40)
	}
	if !open(user + 1000) {
		t.Error("a user who comes after 40 others is kept out")
	}
	for i := range keptForRoot {
		if !open(0) {
			t.Fatalf("root is kept out of connection %d", i+1)
		}
	}
	for open(0) {
	}
	uid.Store(0)
	if c, err := Dial(socket); err != nil {
		t.Error(err)
	} else if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "the daemon closed the connection") {
		t.Errorf("one connection too many: %v", err)
	}
}

// What a party asks for counts by who is responsible, as its connections do.
func TestAskerHasAnOwner(t *testing.T) {
	b := &answers{}
	access := Access{Group: 7, Owner: func(int, int) workload.Owner { return workload.UserOwner(1000) }}
	socket := listeningTo(t, b, access, func(net.Conn) (peer, error) { return peer{uid: 100_000, gid: 7}, nil })
	c, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Undo(t.Context(), Which{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if b.by == nil || b.by.UID != 100_000 || b.by.Responsible() != workload.UserOwner(1000) {
		t.Errorf("asked by %+v", b.by)
	}
}

// A3, B4: the UIDs that subuid(5) gives to one user are one party, in connections and requests.
func TestManyUIDsOfOneUser(t *testing.T) {
	var uid atomic.Int64
	refused := &Refusals{}
	access := Access{Group: -1, OthersMayRead: true, Refused: refused, Owner: func(pid, uid int) workload.Owner {
		if pid != 4711 {
			t.Errorf("asked for process %d", pid)
		}
		if uid >= 100000 && uid < 165536 {
			return workload.UserOwner(1000)
		}
		return workload.UserOwner(uid)
	}}
	socket := listeningTo(t, &answers{}, access, func(net.Conn) (peer, error) {
		return peer{uid: int(uid.Load()), pid: 4711}, nil
	})
	open := func(as int) bool {
		uid.Store(int64(as))
		return openAs(t, socket)
	}
	kept := 0
	for i := range 4 * maxPerUser {
		if open(100000 + i%4) {
			kept++
		}
	}
	if kept != maxPerUser {
		t.Errorf("four UIDs of a user have %d connections, want %d", kept, maxPerUser)
	}
	for range maxPerUser {
		if !open(1234) {
			t.Fatal("another user is kept out")
		}
	}
	// A user of a service is the system's, but no part of root.
	for i := range 2 * maxPerUser {
		if open(33) != (i < maxPerUser) {
			t.Fatalf("connection %d of a service", i+1)
		}
	}
	uid.Store(0)
	c, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"user 1000 holds so many connections to homenode that 48 more were refused or closed. Other clients are served; to recover, end the programs that hold the connections (ss -xp for the socket, ss -tp for the page)",
		"user 33 holds so many connections to homenode that 16 more were refused or closed. Other clients are served; to recover, end the programs that hold the connections (ss -xp for the socket, ss -tp for the page)",
	}
	if !slices.Equal(st.Problems, want) {
		t.Errorf("problems %q, want %q", st.Problems, want)
	}
}

// Parties that hold all connections give way to one that has fewer.
func TestPlacesAreShared(t *testing.T) {
	l := &bounded{bound: onSocket, open: map[workload.Owner][]*placed{}}
	var as peer
	l.who = func(net.Conn) peer { return as }
	open := func(uid int) *placed {
		as = peer{uid: uid}
		c, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		own := l.place(c)
		if own != nil {
			own.answers(false)
		}
		return own
	}
	for uid := range 3 {
		for range maxPerUser {
			if open(1000+uid) == nil {
				t.Fatal("refused below the bound")
			}
		}
	}
	for n := range 12 {
		if open(2000) == nil {
			t.Fatalf("connection %d of a fourth user is refused", n+1)
		}
	}
	if open(2000) != nil {
		t.Error("a fourth user takes more than the others keep")
	}
	for uid := 1000; uid < 1003; uid++ {
		if n := len(l.open[workload.UserOwner(uid)]); n != 12 {
			t.Errorf("user %d keeps %d connections, want 12", uid, n)
		}
	}
	root := open(0)
	if root == nil {
		t.Fatal("root is refused")
	}
	for uid := range 100 {
		open(5000 + uid)
	}
	if l.all != maxConnections-keptForRoot+1 || len(l.open[workload.SystemOwner]) != 1 {
		t.Errorf("%d connections, %d of root", l.all, len(l.open[workload.SystemOwner]))
	}
	for _, all := range l.open {
		for _, c := range all {
			defer c.Close()
		}
	}
	for range 3 { // closed once or more: the place is free once
		root.Close()
	}
	if l.all != maxConnections-keptForRoot {
		t.Errorf("%d connections after root's is closed", l.all)
	}
}

// A party that follows streams only still has connections for commands.
func TestStreamsOfOneUser(t *testing.T) {
	socket := listeningTo(t, &happening{}, Access{Group: -1, OthersMayRead: true}, func(net.Conn) (peer, error) {
		return peer{uid: 1 << 20}, nil
	})
	follow := func() int {
		resp, err := plainOn(socket).Get("http://homenode/v1/events?since=7")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode
	}
	for n := range maxStreams {
		if code := follow(); code != 200 {
			t.Fatalf("stream %d: %d", n+1, code)
		}
	}
	if code := follow(); code != http.StatusTooManyRequests {
		t.Errorf("one stream too many: %d", code)
	}
	c, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("a command beside them: %v", err)
	}
}

func TestRequestRates(t *testing.T) {
	r := newRates()
	at := time.Unix(1e9, 0)
	user := func(uid int) asker { return asker{who: workload.UserOwner(1<<20 + uid)} }
	for i := range requestBurst {
		if !r.take(user(0), at) {
			t.Fatalf("request %d refused", i+1)
		}
	}
	if r.take(user(0), at) {
		t.Error("one too many at once")
	}
	if !r.take(user(1), at) {
		t.Error("others wait, too")
	}
	for i := range requestsPerSecond {
		if !r.take(user(0), at.Add(time.Second)) {
			t.Errorf("request %d after a second refused", i+1)
		}
	}
	// Thousands of parties take no memory, and keep no other from an answer.
	for i := range 10_000 {
		r.take(user(2+i), at)
	}
	if len(r.buckets) > mostBuckets {
		t.Errorf("%d buckets", len(r.buckets))
	}
	if !r.take(user(20_000), at) {
		t.Error("a party that comes then is refused")
	}
	if !r.take(user(0), at.Add(time.Minute)) {
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
	return WhatIfAnswer{Schema: "homenode-what-if/2"}, nil
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
