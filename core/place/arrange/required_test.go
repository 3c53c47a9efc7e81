package arrange

import (
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// A home that has come to lack what is required is not kept, though there is room in it.
func TestRequiredIsAskedOfHomesThatStand(t *testing.T) {
	st := onHost("0 0-7 16G 10 21 dev=eth0\n1 8-15 16G 21 10")
	spec := workload.Spec{ID: "w", Class: workload.Shared, CPUs: 4, Memory: gib, Nodes: topology.Nodes(1), Given: true}
	st.Placements = []plan.Placement{place.Place(st, place.Request{Spec: spec}).Placement}
	spec.Nodes = topology.NodeSet{}
	subject := func(near ...workload.Near) []*place.Subject {
		s := spec
		s.Near = near
		return []*place.Subject{{Spec: s, Observation: workload.Observation{ID: "w", Threads: 4, CPUUse: 4, CPUs: st.Host.Online, Mems: st.Host.AllowedMems, Memory: []workload.NodeMemory{{Node: 1, KiB: gib}}}}}
	}
	for _, tt := range []struct {
		near workload.Near
		home string
	}{{workload.Near{Device: "eth0"}, "1"}, {workload.Near{Device: "eth0", Required: true}, "0"}} {
		p := Arrange(st, subject(tt.near), Options{})
		if len(p.Placements) != 1 || p.Placements[0].Home.String() != tt.home {
			t.Errorf("%+v: %+v", tt.near, p.Placements)
		}
	}
}
