package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// mostLines bounds the lines of the log that wait to be written.
	mostLines = 1024
	// lastLines is how long a daemon that ends waits for them.
	lastLines = time.Second
)

// logBeside writes a log beside the loop: who reads it may have stopped, and the loop waits
// for nobody. What is beyond mostLines is dropped, and counted.
type logBeside struct {
	slog.Handler
	*logLines
}

type logLines struct {
	waiting chan logLine
	dropped atomic.Int64
}

type logLine struct {
	to   slog.Handler
	line slog.Record
}

func newLogBeside(to slog.Handler) logBeside {
	return logBeside{to, &logLines{waiting: make(chan logLine, mostLines)}}
}

// Handle implements slog.Handler. It never waits.
func (l logBeside) Handle(_ context.Context, line slog.Record) error {
	select {
	case l.waiting <- logLine{l.Handler, line.Clone()}:
	default:
		l.dropped.Add(1)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l logBeside) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logBeside{l.Handler.WithAttrs(attrs), l.logLines}
}

// WithGroup implements slog.Handler.
func (l logBeside) WithGroup(name string) slog.Handler {
	return logBeside{l.Handler.WithGroup(name), l.logLines}
}

// write writes lines until done is closed, then those that are left.
func (l logBeside) write(done <-chan struct{}) {
	for {
		select {
		case x := <-l.waiting:
			l.put(x)
			continue
		default:
		}
		select {
		case x := <-l.waiting:
			l.put(x)
		case <-done:
			return
		}
	}
}

func (l logBeside) put(x logLine) {
	if x.to.Handle(context.Background(), x.line) != nil {
		l.dropped.Add(1)
	}
	if n := l.dropped.Swap(0); n > 0 {
		lost := slog.NewRecord(time.Now(), slog.LevelWarn, "the log could not be written for a while", 0)
		lost.Add("lines lost", n)
		if l.Handler.Handle(context.Background(), lost) != nil {
			l.dropped.Add(n) // said when it can be
		}
	}
}
