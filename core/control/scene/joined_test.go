package scene

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What is joined is as much as its parts, in whatever way they were seen.
func TestJoined(t *testing.T) {
	a := workload.Observation{ID: "a", CPUUse: 3, Window: time.Second, RanOn: []workload.NodeShare{{Node: 1, Share: 1}},
		Memory: []workload.NodeMemory{{Node: 1, KiB: 4}}, Movable: []workload.NodeMemory{{Node: 1, KiB: 3}}, CPUs: topology.CPUs(1), Accesses: workload.Accesses{From: workload.Counters, Local: 1, PerSecond: 30}}
	b := workload.Observation{ID: "b", CPUUse: 1, RanOn: []workload.NodeShare{{Node: 0, Share: 1}},
		Memory: []workload.NodeMemory{{Node: 0, KiB: 2}, {Node: 1, KiB: 1}}, CPUs: topology.CPUs(2), OwnPolicy: "bind:1", Accesses: workload.Accesses{From: workload.Counters, Local: 0, PerSecond: 10}}
	o := joined([]workload.Observation{a, b})
	switch {
	case !o.UnevenCPUs || o.UnevenMems:
	case o.ID != "a", o.CPUUse != 4, o.Window != time.Second, o.CPUs.String() != "1-2", o.OwnPolicy != "bind:1":
	case len(o.RanOn) != 2 || o.RanOn[0] != (workload.NodeShare{Node: 0, Share: 0.25}):
	case len(o.Memory) != 2 || o.Memory[0].KiB != 2 || o.Memory[1].KiB != 5, len(o.Movable) != 2 || o.Movable[1].KiB != 4:
	case o.Accesses != (workload.Accesses{From: workload.Counters, Local: 0.75, PerSecond: 40}):
	default:
		if a.Memory[0].KiB == 4 {
			return
		}
	}
	t.Errorf("%+v", o)
}
