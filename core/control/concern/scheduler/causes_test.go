package scheduler

import (
	"testing"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestSiblingsAsTheCause: while goals keep batch work off the SMT siblings of a workload, the scheduler is told that
// it is online-strict, whatever its tier.
func TestSiblingsAsTheCause(t *testing.T) {
	h := on(t)
	for _, id := range []workload.ID{"/db", "/web"} {
		concerntest.Add(h.sc, place.Subject{
			Spec:        workload.Spec{Class: workload.Shared},
			Observation: concerntest.Service(id, topology.CPUs(0, 1)),
		}, &workload.Placement{Class: workload.Shared})
	}
	told := func() string {
		x := &turn{h.Concern, h.sc, h.Batch}
		out := ""
		for _, g := range x.config(nil).Groups {
			out += g.Cgroup + "=" + string(g.Tier) + " "
		}
		return out
	}
	if got := told(); got != "/b=batch " {
		t.Errorf("without goals: %s", got)
	}
	h.Batch.Shared.Steering = &sharing.Steering{Limits: map[goal.Resource]int{goal.Siblings: 50},
		Goals: []goal.Verdict{{Reading: goal.Reading{Workload: "/db"}}}}
	if got := told(); got != "/b=batch /db=online-strict " {
		t.Errorf("with one: %s", got)
	}
}
