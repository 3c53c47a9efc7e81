package try

import (
	"testing"

	"github.com/homenode/homenode/core/trial"
)

// TestRestarted: the result notes each restart of the machine, and another kernel.
func TestRestarted(t *testing.T) {
	for _, c := range []struct{ was, boot, kernel, want string }{
		{"a", "a", "6.12", ""},
		{"", "a", "6.12", ""},
		{"a", "", "6.12", ""},
		{"a", "b", "6.12", "The machine was restarted after 1 block."},
		{"a", "b", "7.3", "The machine was restarted after 1 block, and runs Linux 7.3 instead of 6.12 since."},
	} {
		d := trial.Document{Boot: c.was, Machine: trial.Machine{Kernel: "6.12"}, Periods: make([]trial.Record, 3)}
		d.Plan.Arms = []trial.Arm{trial.Off, trial.On}
		if got := restarted(&d, c.boot, &trial.Machine{Kernel: c.kernel}); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
