package daemon

import (
	"testing"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Of work whose threads are divided it is told how many are kept on each node; threads that
// others have pinned are not among them.
func TestThreadsByNode(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1(memory=16GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	v := &View{View: control.View{Snapshot: workload.Snapshot{Host: h},
		Journal: []plan.Entry{{Kind: plan.ThreadCPUs, Workload: "/wide", Old: "0-7", New: "0-3;4-6"}, {Kind: plan.ThreadCPUs, Workload: "/other", New: "0;4"}}}}
	o := &workload.Observation{ID: "/wide"}
	kept := words.Reasons(words.Because(words.ExactNamed))
	if got := v.withThreads(o, kept); len(got) != 1 {
		t.Errorf("not divided: %v", got)
	}
	for i, cpus := range []topology.CPUSet{topology.CPUs(0, 1, 2, 3), topology.CPUs(4, 5, 6), topology.CPUs(4, 5, 6), topology.CPUs(0), topology.CPUs(4, 5, 6, 7)} {
		o.PerThread = append(o.PerThread, workload.Thread{Process: 1, TID: 1 + i, CPUs: cpus})
	}
	got := v.withThreads(o, kept)
	const want = "It is wider than a node: each thread is kept on one node of its home (1 thread on node 0 and 2 threads on node 1), so that its memory ends up on that node."
	if len(got) != 2 || got[1].String() != want || len(kept) != 1 {
		t.Errorf("%v", got)
	}
}
