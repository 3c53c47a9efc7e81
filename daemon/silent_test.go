package daemon

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
)

// TestStatusOfWhatDoesNotAnswer: a process that holds the lock of its address space may be
// anywhere by now, and keeps its home: status says that it does not answer.
func TestStatusOfWhatDoesNotAnswer(t *testing.T) {
	for _, placed := range []bool{true, false} {
		m := three(t)
		r := newRig(t, m, true)
		if placed {
			r.ticks(6)
		}
		m.live["/a"].obs.Unanswered = true
		r.ticks(3)
		all := r.status(t)
		if w := all["/a"]; w.State != api.StateNoAnswer || !strings.Contains(w.Why, "does not answer") || placed != (w.Home != "") {
			t.Errorf("placed %v: %s, home %q: %s", placed, w.State, w.Home, w.Why)
		}
		if w := all["/b"]; w.State != api.StateAtHome {
			t.Errorf("the other is %s: %s", w.State, w.Why)
		}
		m.live["/a"].obs.Unanswered = false
		r.ticks(6)
		if w := r.status(t)["/a"]; w.State != api.StateAtHome {
			t.Errorf("once it answers: %s: %s", w.State, w.Why)
		}
	}
}
