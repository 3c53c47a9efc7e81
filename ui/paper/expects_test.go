package paper

import (
	"testing"

	"github.com/homenode/homenode/core/report"
)

// TestExpectedColumn: the table of moves has the column of expected gains only where one was expected.
func TestExpectedColumn(t *testing.T) {
	half := 0.5
	for name, tt := range map[string]struct {
		moves []report.Moved
		want  bool
	}{
		"no moves":      {nil, false},
		"none expected": {[]report.Moved{{}, {}}, false},
		"one expected":  {[]report.Moved{{}, {Expected: &half}}, true},
	} {
		v := reportView{Report: report.Report{Moves: report.Moves{Largest: tt.moves}}}
		if got := v.Expects(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
