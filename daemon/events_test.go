package daemon

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// TestEventsFollow: who follows gets each event once, in order, those of before too, from
// whatever number on, and those of long ago from the store.
func TestEventsFollow(t *testing.T) {
	m := three(t)
	live(t, m, none, nil, func(t *testing.T, l *life) {
		ctx, cancel := context.WithCancel(t.Context())
		var followed []uint64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for e := range l.Events(ctx, 0) {
				followed = append(followed, e.Seq)
			}
		}()
		for range keepEvents + keepEvents/4 { // each leaves about two events
			time.Sleep(2 * time.Second)
			if _, err := l.Undo(ctx, api.Which{ID: "/a"}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Resume(ctx, api.Which{ID: "/a"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		cancel()
		<-ended
		h, err := l.History(t.Context(), api.HistoryQuery{})
		if err != nil || len(h.Events) <= 2*keepEvents { // else nothing comes from the store
			t.Fatalf("%d events, %v", len(h.Events), err)
		}
		all := h.Events
		if len(followed) != len(all) {
			t.Fatalf("followed %d events of %d", len(followed), len(all))
		}
		for i := range all {
			if followed[i] != all[i].Seq {
				t.Fatalf("event %d is %d, want %d", i, followed[i], all[i].Seq)
			}
		}
		n := uint64(0)
		for e := range l.Events(t.Context(), 0) { // one who comes late
			if n++; e.Seq != n {
				t.Fatalf("event %d is said to be %d", n, e.Seq)
			}
			if n == uint64(len(h.Events)) {
				break
			}
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		newer := false // and one who knows numbers that a crash has taken back
		for e := range l.Events(ctx, n+100) {
			if newer = true; e.Seq != n+1 {
				t.Errorf("event %d, want %d", e.Seq, n+1)
			}
			break
		}
		if newer {
			t.Error("there was nothing new")
		}
		go func() {
			time.Sleep(time.Second)
			l.Undo(context.Background(), api.Which{ID: "/a"})
		}()
		for e := range l.Events(t.Context(), n+100) {
			if e.Seq != n+1 {
				t.Errorf("event %d, want %d", e.Seq, n+1)
			}
			break
		}
	})
}

// TestManyReaders: status, explanations, history, events and requests beside the loop; for
// the race detector.
func TestManyReaders(t *testing.T) {
	m := three(t)
	r := rig{m: m, store: memory.New()}
	o := r.options(true)
	o.Clock, o.Inline, o.Period = bubbleClock{}, false, 5*time.Millisecond
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	for d.View().Scans == 0 {
		time.Sleep(time.Millisecond)
	}
	var readers sync.WaitGroup
	until := time.Now().Add(300 * time.Millisecond)
	for i := range 8 {
		readers.Go(func() {
			for time.Now().Before(until) {
				switch i {
				case 0, 1:
					d.Status(ctx)
				case 2:
					d.Explain(ctx, "/a")
				case 3:
					d.History(ctx, api.HistoryQuery{})
				case 4:
					d.Place(ctx, api.Want{Name: "x", Class: workload.Shared, CPUs: 1})
				case 5:
					d.Undo(ctx, api.Which{ID: "/b"})
					d.Resume(ctx, api.Which{ID: "/b"})
				case 6:
					d.attention()
				case 7:
					some, stop := context.WithTimeout(ctx, 20*time.Millisecond)
					for range d.Events(some, 0) {
					}
					stop()
				}
			}
		})
	}
	readers.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestEventsHaveNoGap: whoever follows gets every event once, though thousands come at once,
// though it is slow, and though the disk is full for a while.
func TestEventsHaveNoGap(t *testing.T) {
	m := newMachine(t, 2, 64)
	for i := range 3 * keepEvents {
		m.add(fmt.Sprintf("w%04d", i), 0.01, 1<<10, 0)
	}
	s := &diskStore{takes: 50 * time.Millisecond}
	live(t, m, none, func(o *Options) { s.Store, o.Store = o.Store, s }, func(t *testing.T, l *life) {
		ctx, cancel := context.WithCancel(t.Context())
		numbers := make([]uint64, 3)
		var followers sync.WaitGroup
		for i := range numbers {
			followers.Go(func() {
				for e := range l.Events(ctx, 0) {
					if numbers[i]++; e.Seq != numbers[i] {
						t.Errorf("follower %d: after event %d comes %d", i, numbers[i]-1, e.Seq)
						return
					}
					if i > 0 && e.Seq%1000 == 0 { // falls behind
						time.Sleep(time.Duration(i) * 3 * time.Second)
					}
				}
			})
		}
		change := func() {
			time.Sleep(3 * time.Second)
			if _, err := l.Undo(ctx, api.Which{ID: "/w0001"}); err != nil && !s.full.Load() {
				t.Fatal(err)
			}
			if _, err := l.Resume(ctx, api.Which{ID: "/w0001"}); err != nil && !s.full.Load() {
				t.Fatal(err)
			}
			m.mu.Lock()
			for i := range 3 * keepEvents / 2 {
				id := workload.ID(fmt.Sprintf("/x%04d", i))
				if _, here := m.live[id]; here {
					delete(m.live, id)
				} else {
					m.add(string(id[1:]), 0.3, 1<<10, 0) // large enough to be told of
				}
			}
			m.mu.Unlock()
		}
		change()
		s.full.Store(true)
		change()
		change()
		time.Sleep(3 * time.Second)
		s.full.Store(false)
		change()
		change()
		time.Sleep(time.Minute)
		cancel()
		followers.Wait()
		h, err := l.History(t.Context(), api.HistoryQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range h.Events {
			if e.Seq != uint64(i+1) {
				t.Fatalf("event %d of the history is %d", i+1, e.Seq)
			}
		}
		for i, n := range numbers {
			if n != uint64(len(h.Events)) || n < 4*keepEvents {
				t.Errorf("follower %d has %d of %d events", i, n, len(h.Events))
			}
		}
		time.Sleep(time.Minute)
		kept, err := l.store.History(plan.EventQuery{})
		if err != nil || len(kept) != len(h.Events) || kept[len(kept)-1].Seq != uint64(len(kept)) {
			t.Errorf("%d of %d events are on disk, %v", len(kept), len(h.Events), err)
		}
		if n := len(l.View().Events); n > 2*keepEvents+3*keepEvents {
			t.Errorf("%d events in memory", n)
		}
	})
}

// TestEventsInMemoryAreBounded when nothing can be written.
func TestEventsInMemoryAreBounded(t *testing.T) {
	d, _ := newSlow(t)
	for i := range 3 * mostEvents {
		d.remember(plan.Event{Seq: uint64(i + 1)})
		if n := len(d.history); n > mostEvents+1 || i >= keepEvents && n < keepEvents {
			t.Fatalf("%d events", n)
		}
	}
}
