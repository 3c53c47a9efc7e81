package flight

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"
)

// mostLines bounds what waits to be written. A disk that is slower than the daemon costs
// lines, and the file ends there, never time of the loop.
const mostLines = 256

// beginAgain is how long after an error a file is begun again: what is full stays so for a
// while, and each try costs the recording loop a checkpoint.
const beginAgain = 10 * time.Second

// Recorder writes a log beside whoever records.
type Recorder struct {
	w     *Writer
	log   *slog.Logger
	lines chan recorded
	due   atomic.Bool
	done  chan struct{}
}

type recorded struct {
	before json.RawMessage
	line   any
}

// NewRecorder records into a log until it is closed. What cannot be written is told of
// once.
func NewRecorder(w *Writer, log *slog.Logger) *Recorder {
	r := &Recorder{w: w, log: log, lines: make(chan recorded, mostLines), done: make(chan struct{})}
	r.due.Store(true)
	go r.run()
	return r
}

// Due reports whether a file begins with the next line, which must come with a
// checkpoint then. After a gap that is when all lines before it are written: a checkpoint
// takes the recording loop longer than anything else, and would be lost as they were.
func (r *Recorder) Due() bool { return r.due.Load() && len(r.lines) == 0 }

// Add keeps a line, which is not changed from then on. before is the checkpoint of a line
// that was due, else nil.
func (r *Recorder) Add(before json.RawMessage, line any) {
	if before != nil {
		r.due.Store(false)
	} else if r.due.Load() {
		return // what follows a gap cannot be replayed
	}
	select {
	case r.lines <- recorded{before, line}:
	default:
		r.due.Store(true)
	}
}

func (r *Recorder) run() {
	defer close(r.done)
	told := ""
	gap := true // nothing is written until a checkpoint comes
	for x := range r.lines {
		if x.before != nil {
			if err := r.w.end(); err != nil { // the checkpoint begins a file of its own
				r.log.Warn("flight recorder", "err", err)
			}
			gap = false
		}
		if gap {
			continue
		}
		err := r.w.Record(x.line, func() any { return x.before })
		switch {
		case err == nil && told != "":
			told = ""
			r.log.Info("the flight recorder writes again")
		case err != nil && cause(err) != told:
			told = cause(err)
			r.log.Warn("flight recorder", "err", err)
		}
		if r.w.zip != nil {
			continue
		}
		gap = true
		if err == nil { // the file is full
			r.due.Store(true)
		} else {
			time.AfterFunc(beginAgain, func() { r.due.Store(true) })
		}
	}
}

// cause is an error without the name of the file, which differs from one attempt to the next.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Op + ": " + path.Err.Error()
	}
	return err.Error()
}

// Close writes what is left and ends the log.
func (r *Recorder) Close() error {
	close(r.lines)
	<-r.done
	return r.w.Close()
}
