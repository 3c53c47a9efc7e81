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
