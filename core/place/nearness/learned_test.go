package nearness

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestLearned(t *testing.T) {
	nic := workload.Link{Kind: workload.ByTap, Device: "eth0", Name: "eth0", Nodes: topology.Nodes(0)}
	poll := workload.Link{Kind: workload.ByVhostUser, Helper: workload.Process{PID: 7}, Name: "ovs-vswitchd", Nodes: topology.Nodes(1)}
	lost := workload.Link{Kind: workload.ByVhostUser, Helper: workload.Process{PID: 7}, Name: "ovs-vswitchd"}
	for _, tt := range []struct {
		name   string
		link   workload.Link
		use    float64
		mibs   int64
		rate   float64
		vhost  float64
		weight float64 // 0: does not count
	}{
		{"a tenth of its own traffic", nic, 1, 0, 102.4, 0, 0.2},
		{"counted traffic", nic, 1, 8192, 102.4, 0, 0.03},
		{"no more than its own", nic, 1, 0, 4096, 0, 1},
		{"idle", nic, 1, 0, 0.5, 0, 0},
		{"a trickle", nic, 8, 0, 1.5, 0, 0},
		{"idle work", nic, 0, 0, 100, 0, 0},
		{"nothing counts", poll, 1, 0, -1, 0, uncountedWeight},
		{"nothing counts, and it is busy", poll, 64, 0, -1, 0, uncountedWeight},
		{"nobody knows where", lost, 1, 0, -1, 0, 0},
		{"small packets, which vhost is busy with for a quarter of its time", nic, 2, 0, 10, 0.5, 0.25},
		{"vhost says less than the bytes", nic, 2, 0, 1024, 0.5, 1},
		{"its own traffic is counted", nic, 2, 2048, 10.24, 0.5, 0.01},
		{"an idle link, whatever vhost does", nic, 2, 0, 0.5, 0.5, 0},
	} {
		o := workload.Observation{CPUUse: tt.use, Bandwidth: tt.mibs}
		n, counts := Learned(&o, &tt.link, Weighs(&o, tt.rate, tt.vhost))
		if counts != (tt.weight > 0) || counts && (n.Weight != tt.weight || !n.Learned || n.Device != tt.link.Device || !n.Nodes.Equal(tt.link.Nodes)) {
			t.Errorf("%s: %+v, %v", tt.name, n, counts)
		}
	}
}
