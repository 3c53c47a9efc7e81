package goal_test

import (
	"testing"
	"time"
)

// TestOneReadingIsOneMiss: scans that an event calls for do not count one reading several times.
func TestOneReadingIsOneMiss(t *testing.T) {
	h := newHost()
	h.settle(600, knee)
	h.read(0, 2.1)
	h.scan()
	once := h.state.Use
	for range 3 {
		h.at = h.at.Add(500*time.Millisecond - scan) // woken by a trigger; the metric is the same reading
		h.scan()
	}
	if h.state.Use < once {
		t.Errorf("one reading of 2.1 of 2 ms: the use went from %.3f to %.3f", once, h.state.Use)
	}
}

// TestClockSetBack: readings after the clock was set back by an hour count as new ones.
func TestClockSetBack(t *testing.T) {
	h := newHost()
	h.settle(600, knee)
	h.at = h.at.Add(-time.Hour)
	for i := range 3 {
		h.read(0, 3+0.01*float64(i))
		h.scan()
	}
	if floor := (h.online + 1) / 100; h.state.Use > floor+1e-4 {
		t.Errorf("use %.3f after three misses, want the minimum %.3f", h.state.Use, floor)
	}
}

// TestGoalsComeAndGo: a workload that starts and ends takes from the others neither what they have learned nor
// the use after a miss.
func TestGoalsComeAndGo(t *testing.T) {
	h := newHost()
	h.settle(600, knee)
	ceiling := h.state.Ceiling
	h.read(1, 0.1)
	h.scan()
	if h.state.Ceiling != ceiling || h.state.Use == 0.65 {
		t.Errorf("another workload came: use %.3f, ceiling %.3f; before the ceiling was %.3f", h.state.Use, h.state.Ceiling, ceiling)
	}
	both := h.goals
	for i := range 6 {
		h.goals = both[:1+i%2]
		h.read(0, 3+0.01*float64(i))
		if i%2 == 1 {
			h.read(1, 0.1)
		}
		h.scan()
	}
	if floor := (h.online + 1) / 100; h.state.Use > floor+1e-4 {
		t.Errorf("use %.3f after six misses, want the minimum %.3f", h.state.Use, floor)
	}
}
