package run

import (
	"strings"
	"testing"
)

func TestParseAdvice(t *testing.T) {
	for _, tt := range []struct {
		text string
		cpus int
		mib  int64
		bad  string
	}{
		{"4:8192", 4, 8192, ""},
		{"1", 1, 0, ""},
		{"2:0", 2, 0, ""},
		{"", 0, 0, "no number of CPUs"},
		{"0:1", 0, 0, "no number of CPUs"},
		{"-1:1", 0, 0, "no number of CPUs"},
		{"99999999999999999999", 0, 0, "no number of CPUs"},
		{"4:", 0, 0, "no size in MiB"},
		{"4:1:2", 0, 0, "no size in MiB"},
		{"4:-1", 0, 0, "no size in MiB"},
		{"4:9223372036854775807", 0, 0, "no size in MiB"},
		{"a:\n8192", 0, 0, "no number of CPUs"},
	} {
		cpus, mib, err := parseAdvice(tt.text)
		switch {
		case tt.bad == "" && (err != nil || cpus != tt.cpus || mib != tt.mib):
			t.Errorf("%q: %d CPUs, %d MiB, %v", tt.text, cpus, mib, err)
		case tt.bad != "" && (err == nil || !strings.Contains(err.Error(), tt.bad)):
			t.Errorf("%q: %v, want %q", tt.text, err, tt.bad)
		}
	}
}
