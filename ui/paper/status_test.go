package paper

import (
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

func TestStatus(t *testing.T) {
	half, whole, busy := 0.5, 1.0, 3.2
	s := api.Status{Version: "1.2.3", Mode: "enforce", Held: true, Time: time.Date(2026, 11, 22, 18, 4, 5, 0, time.UTC), Small: 2, Problems: []string{hostile},
		Nodes: []api.Node{{CPUs: "0-7", CPUUse: &busy, MemoryKiB: 32 << 20, FreeKiB: 1 << 20, VCPUs: 5.5}, {ID: 1, MemoryKiB: -1, FreeKiB: -1}},
		Workloads: []api.Workload{
			{ID: "/system.slice/db.service", Name: "db.service", Class: workload.Dedicated, Home: "0", CPUUse: 1.5, MemoryKiB: 4 << 20, Locality: &whole, LocalityExpected: &whole, State: api.StateAtHome},
			{ID: "pid:7", Name: hostile, Class: workload.Shared, Home: "1", CPUUse: 0.5, MemoryKiB: 4 << 20, Locality: &half, LocalityExpected: &whole, State: api.StateMoving, Why: hostile, Move: &plan.Move{State: "running", Planned: 4, Moved: 1}},
		},
		Devices:  []api.Device{{Name: "eth0", Interrupts: 4, AtHome: 1, State: api.StateWouldSpread, Why: "`x`"}},
		Managers: []api.Manager{{Name: "irqbalance", Does: "spreads interrupts", Owns: "their affinity"}}}
	page, err := Status(s, "box")
	if err != nil {
		t.Fatal(err)
	}
	sound(t, page)
	golden(t, "status.html", page)
	if s.Workloads[0].Name != "db.service" {
		t.Error("the status itself was sorted")
	}
	if page, err = Status(api.Status{Mode: "none"}, ""); err != nil {
		t.Fatal(err)
	}
	sound(t, page)
}
