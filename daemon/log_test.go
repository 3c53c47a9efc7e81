package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
)

// stuckWriter does not come back while it is stuck.
type stuckWriter struct {
	lines
	stuck atomic.Bool
	end   chan struct{}
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	if w.stuck.Load() {
		<-w.end
	}
	return w.lines.Write(b)
}

// TestLogThatDoesNotEnd: a log that nobody reads holds up nothing. When it is read again it
// says how many lines are lost.
func TestLogThatDoesNotEnd(t *testing.T) {
	m, log := three(t), &stuckWriter{}
	live(t, m, none, func(o *Options) {
		log.end = make(chan struct{})
		o.Log = slog.New(slog.NewTextHandler(log, nil)).With("by", "test").WithGroup("g")
	}, func(t *testing.T, l *life) {
		log.stuck.Store(true)
		time.Sleep(time.Minute)
		for id, w := range workloads(t, l.Daemon) {
			if w.State != api.StateAtHome {
				t.Errorf("%s is %s: %s", id, w.State, w.Why)
			}
		}
		soon(t, "undo", time.Second, func(ctx context.Context) error { _, err := l.Undo(ctx, api.Which{All: true}); return err })
		for i := range 2 * mostLines {
			l.o.Log.Info(fmt.Sprint("line ", i))
		}
		round := l.alive.Load()
		time.Sleep(10 * time.Second)
		if l.alive.Load() == round {
			t.Error("the loop stands still")
		}
		log.stuck.Store(false)
		close(log.end)
		time.Sleep(time.Second)
		if n := log.count(`msg="line `); n >= 2*mostLines || n < mostLines/2 {
			t.Errorf("%d lines", n)
		}
		if log.count("lines lost") != 1 || log.count("by=test") < mostLines/2 {
			t.Error("it does not say what is lost, or by whom a line is")
		}
		l.o.Log.Info("the last")
	})
	if log.count("the last") != 1 {
		t.Error("what is said last is not written")
	}
}

// TestLogStuckAtTheEnd holds up the end of the daemon for a second.
func TestLogStuckAtTheEnd(t *testing.T) {
	log := &stuckWriter{}
	live(t, three(t), none, func(o *Options) {
		log.end = make(chan struct{})
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	}, func(t *testing.T, _ *life) {
		time.Sleep(10 * time.Second)
		log.stuck.Store(true)
		time.AfterFunc(time.Minute, func() { close(log.end) })
	})
}
