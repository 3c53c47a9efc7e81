package proc

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

var told sync.Map // what has panicked

// Caught is deferred in a goroutine: a panic in it is an error of what it was about. The
// log has the stack, once for each what.
func Caught(what string, err *error) {
	broken := recover()
	if broken == nil {
		return
	}
	*err = fmt.Errorf("%s failed by a bug in homenode, whose log has the rest: %v", what, broken)
	if _, before := told.LoadOrStore(what, true); !before {
		slog.Error("a bug in homenode", "in", what, "panic", broken, "stack", string(debug.Stack()))
	}
}
