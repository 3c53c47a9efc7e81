package hostile

import (
	"io"
	"os"
	"strconv"
	"testing"
	"time"
)

// number is an environment variable as a number.
func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// CI has time for some seeds; `make hostile` plays more. A failure says how to play it
// again.
func TestHostile(t *testing.T) {
	first, seeds, events := number(t, "SEED", 1), number(t, "SEEDS", 12), number(t, "EVENTS", 2000)
	var trace io.Writer
	if number(t, "TRACE", 0) > 0 {
		trace = os.Stdout
	}
	var sum Tally
	failed := 0
	for seed := first; seed < first+seeds; seed++ {
		begun := time.Now()
		tally, err := Run(uint64(seed), events, trace)
		sum.Add(tally)
		if testing.Verbose() {
			t.Logf("seed %d: %d events in %.1f s", seed, tally.Events, time.Since(begun).Seconds())
		}
		if err != nil {
			t.Error(err)
			if failed++; failed >= number(t, "FAILURES", 3) {
				break
			}
		}
	}
	t.Logf("%+v", sum)
}
