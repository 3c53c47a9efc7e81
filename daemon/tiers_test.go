package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestMemoryByType: status has the share of each type of memory, and whether the kernel demotes to it.
func TestMemoryByType(t *testing.T) {
	h := plantest.Draw("0 0-3 16G 10 14 30 80\n1 - 32G 14 10 30 255 type=cxl\n2 - 32G 30 30 10 255\n3 - 96G 80 255 255 10")
	o := &workload.Observation{Lower: topology.Nodes(1)}
	on := func(kib ...topology.KiB) {
		o.Memory = nil
		for i, k := range kib {
			o.Memory = append(o.Memory, workload.NodeMemory{Node: topology.NodeID(i), KiB: k})
		}
	}
	on(5, 0, 0, 0)
	if got := byType(h, o); got != nil {
		t.Errorf("all DRAM: %+v", got)
	}
	on(5, 20, 3, 1)
	want := []api.TypeKiB{{Type: "cxl", KiB: 20, Demoted: true}, {Type: "dram", KiB: 5}, {Type: "special", KiB: 3}, {Type: "gpu", KiB: 1}}
	if d := cmp.Diff(want, byType(h, o)); d != "" {
		t.Error(d)
	}
	o.Memory = []workload.NodeMemory{{Node: 9, KiB: 7}} // a node that has gone
	if got := byType(h, o); got != nil {
		t.Errorf("%+v", got)
	}
}
