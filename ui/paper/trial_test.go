package paper

import (
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/trial"
)

// TestTrialWords: a trial describes its own arms alone, an interval has its unit once, and 0 has no sign.
func TestTrialWords(t *testing.T) {
	points := &trial.Effect{Scale: trial.InPoints, Low: -0.228, High: 0.058, Enough: true}
	if got := Range(points, ""); got != "-22.8 to +5.8 points" {
		t.Errorf("interval %q", got)
	}
	nothing := &trial.Effect{Scale: trial.InPoints, Low: -0.0001, High: 0.0001, Enough: true}
	if got := Range(nothing, ""); got != "0.0 to 0.0 points" {
		t.Errorf("interval of nothing %q", got)
	}
	relative := &trial.Effect{Scale: trial.Relative, Low: -0.06, High: 0.599, Enough: true}
	if got := Range(relative, ""); got != "-6.0 to +59.9 %" {
		t.Errorf("relative interval %q", got)
	}
	if got := Amount(0.0004, trial.Relative, ""); got != "0.0 %" {
		t.Errorf("no effect is %q", got)
	}
	d := &trial.Document{Plan: trial.Plan{Arms: []trial.Arm{trial.Off, trial.On}, Blocks: 6, Period: 5 * time.Minute, Every: time.Second, Washout: 90 * time.Second}}
	method := strings.Join(TrialMethod(d), "\n")
	if strings.Contains(method, "caches") || strings.Contains(method, "balancing:") {
		t.Errorf("arms that the trial does not have:\n%s", method)
	}
	for _, want := range []string{"off: the kernel alone", "on: homenode as configured", "measured for 5 min", "at least 90 s of washout"} {
		if !strings.Contains(method, want) {
			t.Errorf("%q is not in\n%s", want, method)
		}
	}
	d.Plan.Arms = []trial.Arm{trial.Off, trial.Balancing, trial.Caches, trial.On}
	if method = strings.Join(TrialMethod(d), "\n"); !strings.Contains(method, "caches: as off, with the kernel's cache-aware scheduling on") {
		t.Error(method)
	}
}

// TestForestTicks: the axis of the effects has round numbers.
func TestForestTicks(t *testing.T) {
	for most, want := range map[float64]float64{0.599: 0.6, 0.01: 0.01, 1: 1, 0.131: 0.2, 0.03: 0.04} {
		if got := roundUp(most); got != want {
			t.Errorf("%g ends at %g, want %g", most, got, want)
		}
	}
}
