package view

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/settings"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const gib = topology.KiB(1) << 20

func dedicated(id string, cpus int) workload.Spec {
	return workload.Spec{ID: workload.ID(id), Class: workload.Dedicated, CPUs: cpus, Memory: gib, Importance: 50}
}

// town is a view of a host of two nodes of 8 CPUs: /a lives on node 0, a home on node 1 is held for next-1, and
// pid:70 was placed by `homenode run`.
func town(t *testing.T) *View {
	t.Helper()
	facts := plan.State{Host: plantest.Pairs(2, 16, 64*gib), Policy: plan.DefaultPolicy()}
	ledger := place.NewLedger(facts)
	home := func(spec workload.Spec, on ...topology.NodeID) workload.Placement {
		d := ledger.Place(place.Request{Spec: spec, Nodes: topology.Nodes(on...)})
		if d.Placement.Home.Empty() {
			t.Fatalf("no home for %s", spec.ID)
		}
		ledger.Commit(d.Placement)
		return d.Placement
	}
	a, next := dedicated("/a", 4), dedicated("next-1", 2)
	seen := func(id string) workload.Observation {
		return workload.Observation{ID: workload.ID(id), Kind: workload.InCgroup, Cgroup: id, CPUs: facts.Host.Online, Mems: topology.Nodes(0, 1),
			Memory: []workload.NodeMemory{{Node: 0, KiB: gib}}, Caps: workload.Caps{}}
	}
	v := &View{
		At: time.Unix(1000, 0), Settings: &settings.Settings{Exclude: []string{"/out/**"}, Policy: facts.Policy}, Facts: facts,
		Snapshot: workload.Snapshot{Host: facts.Host, Observations: []workload.Observation{seen("/a"), seen("/b")}},
		Given:    map[workload.ID]topology.CPUSet{"pid:70": topology.CPUs(1)},
		Writing:  map[workload.ID][]topology.CPUSet{"pid:70": {topology.CPUs(2)}, "pid:71": {topology.CPUs(3)}},
		Wide:     map[workload.ID]bool{"/a": true},
		Journal:  []plan.Entry{{Seq: 1, Workload: "/gone", Kind: plan.CgroupCPUs, Path: "/gone"}},
		Helpers: map[scene.ProcessKey]workload.ID{
			{PID: 90, Start: 1}: "", {PID: 80, Start: 1}: "pid:80", {PID: 85, Start: 1}: "/a",
		},
	}
	v.Plan.Placements = []workload.Placement{home(a, 0)}
	v.Subjects = []*place.Subject{{Spec: a, Observation: v.Snapshot.Observations[0]}, {Spec: dedicated("/b", 1), Observation: v.Snapshot.Observations[1]}}
	var admitted homes.Homes
	_ = admitted
	v.Admitted = admittedOf(t, map[workload.ID]scene.Admission{
		"next-1": {Spec: next, Placement: home(next, 1)},
		"pid:70": {Process: workload.Process{PID: 70, Start: 3}},
	})
	return v
}
