package sim

import (
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// churnEvents is how many events TestChurn runs: 10,000, or 2,000 under the race
// detector; HOMENODE_SIM_EVENTS changes it.
func churnEvents(t *testing.T) int {
	text := os.Getenv("HOMENODE_SIM_EVENTS")
	switch {
	case text == "" && raceEnabled:
		return 2_000
	case text == "":
		return 10_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestChurn is 10,000 arrivals and departures of all classes, asked for and
// found, on 8 and on 64 nodes: no rule broken after any tick or arrival, nothing
// left in the ledger at the end.
func TestChurn(t *testing.T) {
	t.Parallel()
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // as the command does
	for _, x := range []struct {
		name, host string
		workloads  int
		period     time.Duration // longer where a tick takes longer, to end within a minute under the race detector
	}{
		{"8 nodes", "package:2 node:4 core:8 pu:2", 40, 2 * time.Second},
		{"64 nodes", "package:8 node:8 core:2 pu:2", 60, 5 * time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("long")
			}
			trace := generated(t, Generation{Kind: "churn", Host: synthetic(t, x.host), Seed: 64, Events: churnEvents(t), Workloads: x.workloads, Found: DefaultFound})
			r := sound(t, Options{Trace: trace, Seed: 64, Period: x.period, Policies: []string{"homenode"}})
			p := r.Policies[0]
			t.Logf("%d events, %.0f s in %d ticks, at most %d workloads; %d refused, %d times no home; %d settings, %d page moves, %d GiB",
				r.Events, p.Seconds, p.Ticks, p.MostLive, p.Refused, p.Unplaced, p.Steps, p.Moves, p.MovedBytes>>30)
			if p.Steps == 0 || p.Moves == 0 {
				t.Error("the daemon changed nothing: this is no test")
			}
		})
	}
}
