package cores

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
)

// TestRoomOnCores: how many vCPUs fit on whole cores. Node 0 has cores of 1, 2 and 4 CPUs.
func TestRoomOnCores(t *testing.T) {
	h := &topology.Host{
		Nodes:  []topology.Node{{ID: 0, CPUs: topology.CPUs(0, 1, 2, 3, 4, 5, 6), Memory: 16 * plantest.GiB}},
		Cores:  []topology.Core{{CPUs: topology.CPUs(0)}, {CPUs: topology.CPUs(1, 2)}, {CPUs: topology.CPUs(3, 4, 5, 6)}},
		Online: topology.CPUs(0, 1, 2, 3, 4, 5, 6), Allowed: topology.CPUs(0, 1, 2, 3, 4, 5, 6), AllowedMems: topology.Nodes(0),
	}
	policy := plan.DefaultPolicy()
	b := New(h, &policy)
	n := &b.Nodes[0]
	for _, tt := range []struct {
		spare                     int
		isolate, require          int // the most of both orders
		smallFirst, largeFirst    int // one a CPU
		smallAlone, largeFirstOne int // one a core
	}{
		{7, 3, 7, 7, 7, 3, 3},
		{6, 2, 6, 3, 6, 2, 2},
		{5, 2, 5, 3, 5, 2, 2},
		{4, 2, 4, 3, 4, 2, 1},
		{3, 2, 3, 3, 3, 2, 2},
		{2, 1, 2, 1, 2, 1, 1},
		{1, 1, 1, 1, 1, 1, 1},
	} {
		if got := b.wholeRoom(0, tt.spare, true); got != tt.isolate {
			t.Errorf("%d to spare: %d alone on a core, want %d", tt.spare, got, tt.isolate)
		}
		if got := b.wholeRoom(0, tt.spare, false); got != tt.require {
			t.Errorf("%d to spare: %d on whole cores, want %d", tt.spare, got, tt.require)
		}
		for _, x := range []struct {
			one, large bool
			want       int
		}{{false, false, tt.smallFirst}, {false, true, tt.largeFirst}, {true, false, tt.smallAlone}, {true, true, tt.largeFirstOne}} {
			if got := b.wholeBySize(n, tt.spare, x.one, x.large); got != x.want {
				t.Errorf("%d to spare, one a core %v, largest first %v: %d, want %d", tt.spare, x.one, x.large, got, x.want)
			}
		}
	}
}
