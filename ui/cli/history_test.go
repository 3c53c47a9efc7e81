package cli

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimeOf(t *testing.T) {
	zone := time.FixedZone("east", 2*3600)
	now := time.Date(2026, 11, 22, 14, 30, 15, 0, zone)
	for text, want := range map[string]string{
		"":                          "0001-01-01T00:00:00Z",
		"0s":                        "2026-11-22T14:30:15+02:00",
		"1h":                        "2026-11-22T13:30:15+02:00",
		"1h30m":                     "2026-11-22T13:00:15+02:00",
		"2d":                        "2026-11-20T14:30:15+02:00",
		"1w":                        "2026-11-15T14:30:15+02:00",
		"10:30":                     "2026-11-22T10:30:00+02:00",
		"10:30:05":                  "2026-11-22T10:30:05+02:00",
		"2026-11-21":                "2026-11-21T00:00:00+02:00",
		"2026-11-21T10:00":          "2026-11-21T10:00:00+02:00",
		"2026-11-21 10:00:07":       "2026-11-21T10:00:07+02:00",
		"2026-11-21T10:00:00Z":      "2026-11-21T10:00:00Z",
		"2026-11-21T10:00:00+05:00": "2026-11-21T10:00:00+05:00",
	} {
		if got, err := timeOf(text, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"noon", "-1h", "-2d", "25:00", "2026-13-01", "1", "d", "w", "1.5d", "99999d"} {
		if got, err := timeOf(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) { timeOf(rapid.String().Draw(t, "text"), now) })
}
