package see

import (
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// The line names good and bad. Batch work has no home, so that it is never bad, nor is work that is left alone.
func TestInShort(t *testing.T) {
	at := func(id, state string, class workload.Class, local, plan float64) api.Workload {
		return api.Workload{
			ID: workload.ID(id), State: state, Class: class, CPUUse: 1, Locality: &local, LocalityExpected: &plan,
		}
	}
	two := []api.Node{{ID: 0}, {ID: 1}}
	good := at("/web", api.StateAtHome, workload.Shared, 1, 1)
	poor := at("/db", api.StateQueued, workload.Shared, 0.5, 1)
	batch := at("/job", api.StateAtHome, workload.Batch, 0.1, 0.1)
	alone := at("/sshd", api.StateLeftAlone, workload.Shared, 0.97, 0.97)
	for name, x := range map[string]struct {
		nodes []api.Node
		all   []api.Workload
		want  string
	}{
		"one node": {two[:1], []api.Workload{good}, ""},
		"nothing":  {two, nil, ""},
		"alone":    {two, []api.Workload{alone}, ""},
		"good":     {two, []api.Workload{good}, "1 of 1 workload at home; 100.0 % of accesses local, 100.0 % by plan"},
		"batch": {
			two, []api.Workload{good, batch}, "2 of 2 workloads at home; 100.0 % of accesses local, 100.0 % by plan",
		},
		"poor": {
			two, []api.Workload{good, poor},
			"1 of 2 workloads at home; 75.0 % of accesses local, 100.0 % by plan; least local: /db, 50.0 %",
		},
		"unknown": {two, []api.Workload{{ID: "/new", State: api.StateAtHome}}, "1 of 1 workload at home"},
	} {
		got := inShort(&api.Status{Nodes: x.nodes, Workloads: x.all}, view.Paint{})
		if got != x.want {
			t.Errorf("%s: %q; want %q", name, got, x.want)
		}
	}
}
