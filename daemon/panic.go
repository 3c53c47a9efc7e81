package daemon

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/homenode/homenode/core/control"
)

// record has the recorder do something. After a panic of it nothing more is recorded: what
// follows a gap cannot be replayed.
func (d *Daemon) record(do func(Recorder)) {
	if d.o.Recorder == nil {
		return
	}
	var bug error
	defer func() {
		if bug != nil {
			d.o.Recorder = nil
		}
	}()
	defer d.caught("the flight recorder", &bug)
	do(d.o.Recorder)
}

// caught is deferred where the daemon calls what others have written: a panic in there is
// an error of what it was about, and all else goes on. The log has the stack, once for each
// what.
func (d *Daemon) caught(what string, err *error) {
	broken := recover()
	if broken == nil {
		return
	}
	*err = fmt.Errorf("%s failed by a bug in homenode, whose log has the rest: %v", what, broken)
	for {
		told, now := d.broken.Load(), []string{what}
		if told != nil {
			if slices.Contains(*told, what) {
				return
			}
			now = append(now, *told...)
		}
		if d.broken.CompareAndSwap(told, &now) {
			break
		}
	}
	d.o.Log.Error("a bug in homenode", "in", what, "panic", broken, "stack", string(debug.Stack()))
}

// what is an effect as the log names it.
func what(e *control.Effect) string {
	switch {
	case e.Step != nil:
		return fmt.Sprintf("%s of %s of a %s", e.Kind, e.Step.Kind, e.Step.Target.Kind)
	case e.Kind == control.EffectSurvey:
		return "survey of " + string(e.Survey)
	}
	return string(e.Kind)
}
