package daemon

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/homes"
)

// TestHurry: scans follow one another quickly for a while after work got a home of several nodes, as fast as they
// leave most of a CPU to others, and never more seldom than the period.
func TestHurry(t *testing.T) {
	const period = 2 * time.Second
	for _, c := range []struct {
		name    string
		enforce bool
		left    time.Duration // of the hurry
		took    time.Duration // by the newest scan
		want    time.Duration
	}{
		{"no hurry", true, 0, time.Millisecond, period},
		{"it is over", true, -time.Second, time.Millisecond, period},
		{"a quick scan", true, time.Second, time.Millisecond, wakeRest},
		{"a slow scan", true, time.Second, 200 * time.Millisecond, 400 * time.Millisecond},
		{"a very slow one", true, time.Second, period, period},
		{"observe mode", false, time.Second, time.Millisecond, period},
	} {
		r := newRig(t, newMachine(t, 2, 4), c.enforce)
		v := View{View: r.View().View}
		v.Took = c.took
		v.Wide = homes.Wide{Hurry: r.clock.Now().Add(c.left)}
		r.view.Store(&v)
		if got := r.pause(); got != c.want {
			t.Errorf("%s: the next scan comes after %v, want %v", c.name, got, c.want)
		}
	}
}
