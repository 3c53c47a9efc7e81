package main

import (
	"runtime"
	"testing"
)

// TestFewCPUs: the daemon computes on two CPUs at most, on one where it has one.
func TestFewCPUs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for _, c := range []struct{ had, want int }{{8, 2}, {2, 2}, {1, 1}} {
		runtime.GOMAXPROCS(c.had)
		fewCPUs()
		if got := runtime.GOMAXPROCS(0); got != c.want {
			t.Errorf("of %d CPUs it computes on %d, want %d", c.had, got, c.want)
		}
	}
}
