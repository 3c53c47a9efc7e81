package main

import (
	"math"
	"testing"
	"time"
)

// TestCheck: a rate that gives no step, or that is no number, is refused before anything starts.
func TestCheck(t *testing.T) {
	good := options{cases: "B", online: stepName, batch: "own", runs: 1, run: 8 * time.Second}
	for _, c := range []struct {
		online string
		rate   float64
		ok     bool
	}{
		{stepName, 0, true}, {stepName, 250, true}, {stepName, 251, false}, {stepName, 0.1, false},
		{stepName, math.NaN(), false}, {stepName, math.Inf(1), false},
		{"own", 0, true}, {"own", 34165, true}, {"own", -1, false}, {"own", math.NaN(), false}, {"own", math.Inf(1), false},
	} {
		o := good
		o.online, o.rate = c.online, c.rate
		if err := o.check(); (err == nil) != c.ok {
			t.Errorf("-online %s -rate %v: %v", c.online, c.rate, err)
		}
	}
}
