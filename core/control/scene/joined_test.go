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

// TestJoinedTraits: what keeps one part from being changed keeps all of them, and each list is in order.
func TestJoinedTraits(t *testing.T) {
	for _, tt := range []struct {
		what string
		set  func(*workload.Observation)
		has  func(*workload.Observation) bool
	}{
		{"unread", func(o *workload.Observation) { o.MemoryUnread = true }, func(o *workload.Observation) bool { return o.MemoryUnread }},
		{"moved", func(o *workload.Observation) { o.MemoryMoved = true }, func(o *workload.Observation) bool { return o.MemoryMoved }},
		{"unanswered", func(o *workload.Observation) { o.Unanswered = true }, func(o *workload.Observation) bool { return o.Unanswered }},
		{"unasked", func(o *workload.Observation) { o.Unasked = true }, func(o *workload.Observation) bool { return o.Unasked }},
		{"terminal", func(o *workload.Observation) { o.Terminal = true }, func(o *workload.Observation) bool { return o.Terminal }},
		{"pinned", func(o *workload.Observation) { o.Pinned, o.PinnedWhy = true, "x" }, func(o *workload.Observation) bool { return o.Pinned && o.PinnedWhy == "x" }},
		{"other CPUs", func(o *workload.Observation) { o.CPUs = topology.CPUs(1) }, func(o *workload.Observation) bool { return o.UnevenCPUs }},
		{"other nodes", func(o *workload.Observation) { o.Mems = topology.Nodes(1) }, func(o *workload.Observation) bool { return o.UnevenMems }},
		{"waiting", func(o *workload.Observation) { o.Waited, o.WaitedFrom = 0.5, "psi" }, func(o *workload.Observation) bool { return o.Waited == 0.5 && o.WaitedFrom == "psi" }},
		{"throttled", func(o *workload.Observation) { o.Throttled = 0.5 }, func(o *workload.Observation) bool { return o.Throttled == 0.5 }},
		{"movable", func(o *workload.Observation) { o.Movable = []workload.NodeMemory{{Node: 0, KiB: 1 << 20}} }, func(o *workload.Observation) bool { return o.Movable != nil }},
	} {
		for at := range 2 {
			parts := []workload.Observation{service("a"), service("b")}
			if o := joined(parts); tt.has(&o) {
				t.Errorf("%s: without it", tt.what)
			}
			tt.set(&parts[at])
			if o := joined(parts); !tt.has(&o) {
				t.Errorf("%s, of part %d: %+v", tt.what, at, o)
			}
		}
	}
}

// TestJoinedIsUneven: parts that differ stay uneven when a later one has the CPUs and nodes of all.
func TestJoinedIsUneven(t *testing.T) {
	a, b, c := service("a"), service("b"), service("c")
	a.CPUs, a.Mems = topology.CPUs(0), topology.Nodes(0)
	b.CPUs, b.Mems = topology.CPUs(1), topology.Nodes(1)
	c.CPUs, c.Mems = topology.CPUs(0, 1), topology.Nodes(0, 1)
	o := joined([]workload.Observation{a, b, c})
	if !o.UnevenCPUs || !o.UnevenMems || !o.CPUs.Equal(c.CPUs) || !o.Mems.Equal(c.Mems) {
		t.Errorf("%+v", o)
	}
}

// TestJoinedSums: threads, processes and use are those of all parts.
func TestJoinedSums(t *testing.T) {
	part := func(pid int) workload.Observation {
		return workload.Observation{
			Processes: []workload.Process{{PID: pid}}, PerThread: []workload.Thread{{Process: pid, TID: pid}},
			Threads: pid, CPUTime: time.Duration(pid), Bandwidth: int64(pid), Executed: workload.Executed{Cycles: float64(pid), Instructions: float64(2 * pid)},
		}
	}
	parts := []workload.Observation{part(9), part(4), part(6)}
	o := joined(parts)
	if o.Threads != 19 || o.CPUTime != 19 || o.Bandwidth != 19 || o.Executed.Cycles != 19 || o.Executed.Instructions != 38 {
		t.Errorf("%+v", o)
	}
	for i, pid := range []int{4, 6, 9} {
		if o.Processes[i].PID != pid || o.PerThread[i].TID != pid {
			t.Errorf("%+v, %+v", o.Processes, o.PerThread)
		}
	}
	if parts[0].Processes[0].PID != 9 || len(parts[0].Processes) != 1 {
		t.Errorf("the first part was changed: %+v", parts[0])
	}
	if o = joined(parts[:1]); o.Threads != 9 {
		t.Errorf("of one part: %+v", o)
	}
}

// TestAccesses: accesses of two parts are weighed by their number, or by use where there is none.
func TestAccesses(t *testing.T) {
	counted := func(local, rate float64) workload.Accesses {
		return workload.Accesses{From: workload.Counters, Local: local, PerSecond: rate}
	}
	other := workload.Accesses{From: "faults", Local: 0.5}
	for _, tt := range []struct {
		a, b       workload.Accesses
		useA, useB float64
		want       workload.Accesses
	}{
		{counted(1, 3), counted(0.2, 1), 0, 0, counted(0.8, 4)},
		{counted(1, 0), counted(0.2, 0), 3, 1, counted(0.8, 0)},
		{counted(1, 0), counted(0.2, 0), 0, 0, counted(1, 0)},
		{counted(1, 1), counted(0.2, 3), 0, 0, counted(0.4, 4)},
		{counted(1, 3), workload.Accesses{}, 1, 9, counted(1, 3)},
		{workload.Accesses{}, counted(1, 3), 9, 1, counted(1, 3)},
		{counted(1, 3), other, 1, 2, other},
		{counted(1, 3), other, 2, 1, counted(1, 3)},
		{counted(1, 3), other, 1, 1, counted(1, 3)},
	} {
		got := accessesOf(tt.a, tt.b, tt.useA, tt.useB)
		if d := got.Local - tt.want.Local; d > 1e-9 || d < -1e-9 || got.From != tt.want.From || got.PerSecond != tt.want.PerSecond {
			t.Errorf("%+v and %+v: %+v, want %+v", tt.a, tt.b, got, tt.want)
		}
	}
}
