package homes

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// The newest reason of a home is the one that is told.
func TestNewestDecision(t *testing.T) {
	at := func(id workload.ID, node topology.NodeID) plan.Decision {
		return plan.Decision{Workload: id, Home: topology.Nodes(node)}
	}
	d := Decisions{all: map[workload.ID]plan.Decision{"a": at("a", 0), "b": at("b", 0)}, since: []plan.Decision{at("a", 1), at("a", 2)}}
	for id, home := range map[workload.ID]string{"a": "2", "b": "0"} {
		if one, ok := d.Of(id); !ok || one.Home.String() != home {
			t.Errorf("%s: %v %+v", id, ok, one)
		}
	}
	if _, ok := d.Of("c"); ok {
		t.Error("of nobody")
	}
}
