package scene

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What was seen of the parts of a workload is taken out of what was seen of all of it: nothing
// counts twice, and nothing is lost.
func TestTakePart(t *testing.T) {
	mem := func(kib ...topology.KiB) (out []workload.NodeMemory) {
		for n, m := range kib {
			if m > 0 {
				out = append(out, workload.NodeMemory{Node: topology.NodeID(n), KiB: m})
			}
		}
		return out
	}
	all := []workload.Observation{{
		ID: "vm:a", CPUUse: 4, Memory: mem(110, 70), Movable: mem(105, 70),
		VCPUs: []workload.ThreadTime{{VCPU: 0, Node: 0, Share: .25}, {VCPU: 1, Node: 1, Share: .25}, {VCPU: 2, Node: 1, Share: .25}},
		Asked: []workload.AskedMemory{{Node: 0, Memory: mem(90, 10)}, {Node: 1, Memory: mem(10, 60)}},
	}}
	parts := []*workload.Part{
		{Of: "vm:a", VCPUs: topology.SetOf(0, 1), Memory: 0}, {Of: "vm:a", VCPUs: topology.SetOf(2), Memory: 1}, {Of: "vm:a", VCPUs: topology.SetOf(3), Memory: 2},
	}
	for k, p := range parts {
		o := takePart(all, p)
		o.ID = workload.PartID("vm:a", k)
		all = append(all, o)
	}
	if d := cmp.Diff([]workload.NodeShare{{Node: 0, Share: .5}, {Node: 1, Share: .5}}, all[1].RanOn); d != "" || all[1].CPUUse != 2 || all[2].CPUUse != 1 || all[0].CPUUse != 1 {
		t.Errorf("%s %v %v %v", d, all[0].CPUUse, all[1].CPUUse, all[2].CPUUse)
	}
	if d := cmp.Diff(mem(90, 10), all[1].Memory) + cmp.Diff(mem(10, 60), all[2].Memory) + cmp.Diff(mem(10), all[0].Memory) + cmp.Diff(mem(5), all[0].Movable); d != "" {
		t.Error(d)
	}
	if !all[3].MemoryUnread || all[1].MemoryUnread {
		t.Error("memory that no mapping tells of counts as read")
	}
	if o := takePart(all, &workload.Part{Of: "vm:b"}); !o.MemoryUnread {
		t.Error("a part of nothing")
	}
}
