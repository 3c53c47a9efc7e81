package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestSharingIsNotQueued: what batch work may use changes as online work comes and goes. That
// is no step towards its home, and nothing moves for it.
func TestSharingIsNotQueued(t *testing.T) {
	id := workload.ID("/batch")
	cpus := plan.Step{Workload: id, Kind: plan.SetCPUs}
	limit := plan.Step{Workload: id, Kind: plan.SetCgroup}
	pages := plan.Step{Workload: id, Kind: plan.MovePages}
	for _, c := range []struct {
		name    string
		on      bool // whether sharing gives it CPUs
		enforce bool
		now     topology.CPUSet
		steps   []plan.Step
		want    string
	}{
		{"fewer CPUs of those at home", true, true, topology.CPUs(2, 3), []plan.Step{cpus, limit}, api.StateAtHome},
		{"CPUs that are not at home", true, true, topology.CPUs(0, 3), []plan.Step{cpus}, api.StateQueued},
		{"pages", true, true, topology.CPUs(2, 3), []plan.Step{limit, pages}, api.StateQueued},
		{"fewer CPUs, not for sharing", false, true, topology.CPUs(2, 3), []plan.Step{cpus}, api.StateQueued},
		{"a value of important work", false, true, topology.CPUs(2, 3), []plan.Step{limit}, api.StateAtHome},
		{"observe mode", true, false, topology.CPUs(2, 3), []plan.Step{cpus}, api.StateWouldMove},
	} {
		v := &View{}
		v.Settings = &control.Settings{Enforce: c.enforce}
		v.Plan.Placements = []plan.Placement{{Workload: id, Class: workload.Batch, CPUs: topology.CPUs(1, 2, 3)}}
		if c.on {
			v.Sharing.Work = []share.Grant{{Workload: id, CPUs: topology.CPUs(3)}}
		}
		o := &workload.Observation{ID: id, CPUs: c.now}
		if got, _ := v.state(o, planned{steps: c.steps}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestUpgradeWithoutScheduler: who asks for an object of their own learns why none is loaded.
func TestUpgradeWithoutScheduler(t *testing.T) {
	_, err := (&Daemon{}).UpgradeScheduler(context.Background(), api.UpgradeOrder{Object: "/tmp/own.o"})
	if err == nil || !strings.Contains(err.Error(), "sched_ext") {
		t.Errorf("%v: no reason", err)
	}
}

// TestLacking: that the kernel has not a file is a fact, whatever the driver says of it; that a
// controller is missing is another.
func TestLacking(t *testing.T) {
	for err, want := range map[error]control.Code{
		fmt.Errorf("/batch: %w", plan.Unsupported(string(plan.CgroupIdle), "Linux 5.15")): control.Lacking,
		plan.Unsupported("cpu.idle in cgroup v2", "the cpu controller"):                   control.Failed,
	} {
		if got := failure(err).Code; got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

// TestUntieredIsAProblem: cgroups whose tier the scheduler does not take are told with numbers.
func TestUntieredIsAProblem(t *testing.T) {
	v := &View{}
	v.Settings, v.Snapshot.Host = &control.Settings{}, &topology.Host{}
	v.Scheduler.Seen = share.SchedulerSeen{Loaded: "v1", Tiers: 2}
	v.Sharing.On = true
	v.Scheduler.Untiered = []string{"/a", "/b", "/c"}
	s := v.Status("1.2.3")
	if want := "3 of 5 cgroups with a tier"; len(s.Problems) != 1 || !strings.Contains(s.Problems[0], want) || s.Sharing.Scheduler.Untiered != 3 {
		t.Errorf("%q, want %q", s.Problems, want)
	}
}
