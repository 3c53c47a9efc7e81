package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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

// Each worker with GPUs has a line, and the explanation has the share of local memory before and now; it
// promises no gain.
func TestWorkersByGPU(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1(memory=16GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	h.Devices = []topology.Device{
		{Name: "card1", Kind: topology.GPU, PCI: "0000:13:00.0", Node: 0, GPU: "gpu0"},
		{Name: "card2", Kind: topology.GPU, PCI: "0000:83:00.0", Node: 1, GPU: "gpu1"},
	}
	gpu := func(name string, p workload.Process) control.Link {
		return control.Link{Link: workload.Link{Kind: workload.ByGPU, Device: name, Holders: []workload.Holder{{Process: p, Files: 1}}}}
	}
	a, b := workload.Process{PID: 10, Start: 1}, workload.Process{PID: 11, Start: 1}
	v := &View{View: control.View{
		Snapshot: workload.Snapshot{Host: h},
		Journal: []plan.Entry{
			{Kind: plan.ThreadCPUs, Workload: "/train", Old: "0-7", New: "0-3;4-7"},
		},
	}}
	v.Links = map[workload.ID][]control.Link{"/train": {gpu("gpu0", a), gpu("gpu1", b)}}
	v.WorkersBefore = map[workload.ID]control.WorkersMeasure{"/train": {Memory: 0.5, Accesses: 0.5, From: workload.Counters}}
	o := &workload.Observation{
		ID:       "/train",
		Accesses: workload.Accesses{From: workload.Counters, Local: 0.99},
		PerThread: []workload.Thread{
			{Process: 10, TID: 10, CPUs: topology.CPUs(0, 1, 2, 3)},
			{Process: 11, TID: 11, CPUs: topology.CPUs(4, 5, 6, 7)},
			{Process: 11, TID: 12, CPUs: topology.CPUs(5)},
		},
		PerProcess: []workload.ProcessMemory{{Process: 10, Memory: []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}}},
	}
	want := []string{
		"PID 10: gpu0 on node 0; 1 thread kept there; 1 GiB of memory, 100 % there.",
		"PID 11: gpu1 on node 1; 1 thread kept there; its memory has not been read.",
		"Measured: 50 % of their memory was on the nodes of their GPUs before, 100 % is now. Local accesses: 50 % before, 99 % now (counters). " +
			"The speedup is not known: homenode promises no gain.",
	}
	var got []string
	for _, r := range v.withThreads(o, nil) {
		got = append(got, r.String())
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	v.WorkersBefore, o.Accesses = nil, workload.Accesses{}
	all := v.withThreads(o, nil)
	if last := all[len(all)-1]; last.Code != words.WorkersMeasured {
		t.Errorf("without a figure from before: %s", last)
	}
}
