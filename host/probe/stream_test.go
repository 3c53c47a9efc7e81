package probe

import (
	"errors"
	"testing"
	"time"
)

// Sixteen threads on sixteen CPUs of a quiet machine: in most windows of 20 ms something
// else ran for some microseconds on one of them, and a bandwidth was given for none.
func TestWindowOfManyThreads(t *testing.T) {
	const window = 20 * time.Millisecond
	threads := func(n int, first part) []part {
		all := make([]part, n)
		for i := range all {
			all[i] = part{steps: 100, passed: passed{took: window}}
		}
		first.steps, first.took = 100, window
		all[0] = first
		return all
	}
	broken := errors.New("broken")
	for _, tt := range []struct {
		name   string
		parts  []part
		reject string
		err    error
	}{
		{"nothing happened", threads(16, part{}), "", nil},
		{"a kernel thread ran for 30 µs on one CPU", threads(16, part{passed: passed{off: 30 * time.Microsecond, switched: true}}), "", nil},
		{"one CPU was shared half of the time", threads(16, part{passed: passed{off: window / 2, switched: true}}), preempted, nil},
		{"the only thread was away for 2 %", threads(1, part{passed: passed{off: window / 50, switched: true}}), preempted, nil},
		{"a thread was moved", threads(16, part{passed: passed{moved: true}}), "moved", nil},
		{"a thread failed", threads(2, part{err: broken}), "", broken},
	} {
		rate, reject, err := together(tt.parts)
		if reject != tt.reject || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v; want %q, %v", tt.name, reject, err, tt.reject, tt.err)
		}
		if want := float64(len(tt.parts)) * 100 / window.Seconds(); rate != want {
			t.Errorf("%s: %g steps a second, want %g", tt.name, rate, want)
		}
	}
}
