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

// TestWhereAPartRan: the shares of a part's vCPUs add up node by node, in the order of nodes.
func TestWhereAPartRan(t *testing.T) {
	all := []workload.Observation{{
		ID: "vm:a", CPUUse: 4,
		VCPUs: []workload.ThreadTime{
			{VCPU: 0, Node: 1, Share: .2}, {VCPU: 1, Node: 0, Share: .1}, {VCPU: 2, Node: 1, Share: .1}, {VCPU: 3, Node: 0, Share: .6}, {VCPU: 4, Node: 0},
		},
	}}
	part := &workload.Part{Of: "vm:a", VCPUs: topology.SetOf(0, 1, 2, 4)}
	o := takePart(all, part)
	want := []workload.NodeShare{{Node: 0, Share: .25}, {Node: 1, Share: .75}}
	near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
	if len(o.RanOn) != 2 || o.RanOn[0].Node != 0 || !near(o.RanOn[0].Share, .25) || !near(o.RanOn[1].Share, .75) {
		t.Errorf("%+v, want %+v", o.RanOn, want)
	}
	if o.RanOnFrom != workload.PerThread || !near(o.CPUUse, 1.6) || !near(all[0].CPUUse, 2.4) || o.Threads != 4 {
		t.Errorf("%+v; left of the whole: %v", o, all[0].CPUUse)
	}
	part.VCPUs = topology.SetOf(4)
	if o = takePart(all, part); o.RanOn != nil || o.RanOnFrom != workload.AllowedSet || o.CPUUse != 0 {
		t.Errorf("that has not run: %+v", o)
	}
}
