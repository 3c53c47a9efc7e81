package words

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                              "0 s",
		59 * time.Second:               "59 s",
		time.Minute:                    "1 min",
		2*time.Minute + 59*time.Second: "3 min",
		130 * time.Minute:              "2 h 10 min",
		84 * time.Hour:                 "3.5 days",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// TestDuration: short ones in seconds, and no superfluous digits.
func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 300 * time.Microsecond: "0 s", 1500 * time.Microsecond: "2 ms", 250 * time.Millisecond: "250 ms",
		999600 * time.Microsecond: "1 s", time.Second: "1 s", 59600 * time.Millisecond: "1 min", time.Minute: "1 min",
		90 * time.Second: "90 s", 2 * time.Minute: "2 min", 726 * time.Second: "12 min 6 s", time.Hour: "1 h",
		90 * time.Minute: "90 min", 2 * time.Hour: "2 h", 130*time.Minute + 5*time.Second: "2 h 10 min",
		-30 * time.Second: "-30 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
