package cli

import (
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
)

// The state is a code; how far a move is is in its record.
func TestStateOfMoving(t *testing.T) {
	for _, c := range []struct {
		want string
		w    api.Workload
	}{
		{"moving 50 %", api.Workload{State: api.StateMoving, Move: &plan.Move{Planned: 10, Moved: 5}}},
		{"moving 100 %", api.Workload{State: api.StateMoving, Move: &plan.Move{Planned: 10, Moved: 11}}},
		{"moving", api.Workload{State: api.StateMoving, Move: &plan.Move{}}},
		{"moving", api.Workload{State: api.StateMoving}},
		{"at home", api.Workload{State: api.StateAtHome, Move: &plan.Move{Planned: 10, Moved: 10}}},
	} {
		if got := StateOf(c.w); got != c.want {
			t.Errorf("%+v: %q, want %q", c.w, got, c.want)
		}
	}
}
