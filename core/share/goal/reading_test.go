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
