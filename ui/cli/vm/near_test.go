package vm

import (
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestNearOfUser: what an ordinary user runs counts by name for nobody else, wherever its cgroup is.
func TestNearOfUser(t *testing.T) {
	for uid, want := range map[int]workload.ID{1000: "", 0: "pid:7", 64055: "pid:7"} {
		s := &existing{others: []api.Workload{{ID: "pid:7", Name: "ovs", Kind: workload.InProcess, Cgroup: "/system.slice/cron.service", UID: uid, RanOn: []api.NodeShare{{Node: 1, Share: 1}}}}}
		near := []workload.Near{{Process: "ovs"}}
		s.locate(near)
		if near[0].Workload != want || want != "" && !near[0].Nodes.Equal(topology.Nodes(1)) {
			t.Errorf("user %d: %+v", uid, near[0])
		}
	}
}
