package daemon

import (
	"encoding/json"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// TestStateOfTheVersionBefore: a state folder as versions before package control wrote it (package store has
// brought the keys up to date)
// is read whole: homes of `homenode run`, holds, why homes were chosen, the partition.
func TestStateOfTheVersionBefore(t *testing.T) {
	m := scattered(t)
	process := workload.Process{PID: 77, Start: 5}
	run := m.add("x", 2, 1<<20, 0)
	thing := m.live[run]
	delete(m.live, run)
	thing.obs.ID, thing.obs.Kind, thing.obs.Processes, thing.obs.Cgroup, thing.obs.CPUs = "pid:77", workload.InProcess, []workload.Process{process}, "", topology.CPUs(0, 1)
	m.live["pid:77"] = thing

	r := &rig{m: m, clock: &handClock{}, store: memory.New()}
	home := workload.Placement{Workload: "pid:77", Class: workload.Dedicated, Importance: 50, VCPUs: 2, Home: topology.Nodes(0), CPUs: topology.CPUs(0, 1),
		Pins: []topology.CPUID{0, 1}, Memory: []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}, Asked: 1 << 20, Start: 5}
	err := r.store.Commit(plan.Batch{
		Placements: plan.HomesOf([]workload.Placement{home}),
		Entries:    []plan.Entry{{Seq: 3, Workload: "/a", Kind: plan.CgroupCPUs, Path: "/a", Old: "0-15", New: "0-7", State: plan.Applied}},
		Values: map[string]any{
			"boot":       "boot",
			"admissions": json.RawMessage(`{"pid:77":{"name":"db","class":"dedicated","cpus":2,"memory_kib":1048576,"near":["eth0"],"process":{"PID":77,"Start":5}}}`),
			"holds":      json.RawMessage(`{"all":false,"ids":{"/b":true}}`),
			"chosen": json.RawMessage(`{"pid:77":{"workload":"pid:77","outcome":"placed","home":"0","reasons":["The node had the most room."],
				"candidates":[{"nodes":"0","score":1},{"nodes":"1","score":2,"rejected":"It is further away."}]}}`),
			"balance":   json.RawMessage(`[{"workload":"/b","from":"0","to":"1","at":"2026-01-02T03:04:05Z"}]`),
			"partition": json.RawMessage(`{"partition":"0-3,8-11","configured":""}`),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.live["/a"].obs.CPUs = topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
	before := m.settings()["/b"]
	r.start(t, true)
	r.ticks(4)
	all := r.status(t)
	if w := all["pid:77"]; w.Name != "db" || w.Class != workload.Dedicated || w.Home != "0" || w.CPUSetPlanned != "0-1" || w.MemoryKiB == 0 || len(w.Near) != 1 {
		t.Errorf("the home of homenode run is lost: %+v", w)
	}
	seen := r.Attention()
	if got := seen.Registered; len(got) != 1 || got[0] != process {
		t.Errorf("registered %v", got)
	}
	if got := seen.Expected("pid:77"); len(got) != 1 || got[0].String() != "0-1" {
		t.Errorf("it was given %v", got)
	}
	if w := all["/b"]; w.State != api.StateHeld || m.settings()["/b"] != before {
		t.Errorf("the hold is lost: %+v", w)
	}
	x, err := r.Explain(t.Context(), "pid:77")
	if err != nil || len(x.Decision.Candidates) != 2 {
		t.Errorf("why it is there is lost: %+v, %v", x.Decision, err)
	}
	s, err := r.Status(t.Context())
	if err != nil || s.Partition == nil || s.Partition.Partition != "0-3,8-11" {
		t.Errorf("the partition is lost: %+v, %v", s.Partition, err)
	}
	if _, err := r.undo(api.Which{ID: "/a"}); err != nil || m.settings()["/a"] != "0-15 0-1" {
		t.Errorf("undo: %v; %s", err, m.settings()["/a"])
	}
	r.start(t, true) // in the form of now
	r.ticks(1)
	if w := r.status(t)["pid:77"]; w.Name != "db" || w.CPUSetPlanned != "0-1" {
		t.Errorf("after another start: %+v", w)
	}
}

// TestBatchOfTheVersionBefore: a home that `homenode run --class offline` got from version 0.1 is
// that of batch work.
func TestBatchOfTheVersionBefore(t *testing.T) {
	m := scattered(t)
	process := workload.Process{PID: 77, Start: 5}
	run := m.add("x", 2, 1<<20, 0)
	thing := m.live[run]
	delete(m.live, run)
	thing.obs.ID, thing.obs.Kind, thing.obs.Processes, thing.obs.Cgroup = "pid:77", workload.InProcess, []workload.Process{process}, "/homenode-offline/77"
	m.live["pid:77"] = thing

	r := &rig{m: m, clock: &handClock{}, store: memory.New()}
	home := workload.Placement{Workload: "pid:77", Class: "offline", Importance: 50, VCPUs: 2, Home: topology.Nodes(0, 1), CPUs: topology.CPUs(0, 1), Start: 5}
	err := r.store.Commit(plan.Batch{Placements: plan.HomesOf([]workload.Placement{home}), Values: map[string]any{
		"boot":       "boot",
		"admissions": json.RawMessage(`{"pid:77":{"name":"encode","class":"offline","cpus":2,"memory_kib":1048576,"process":{"PID":77,"Start":5}}}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.start(t, false)
	r.ticks(2)
	if w := r.status(t)["pid:77"]; w.Name != "encode" || w.Class != workload.Batch {
		t.Errorf("it is %s %q", w.Class, w.Name)
	}
}
