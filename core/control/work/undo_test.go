package work

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// What is being put back holds up the steps about it, and those that need its controllers.
func TestWhatIsBeingPutBack(t *testing.T) {
	w := New(0, nil, nil, nil, nil)
	w.Undoing = []*Undoing{{}, {Running: map[uint64][]plan.Entry{1: {
		{Workload: "/a", Kind: plan.CgroupCPUs, Path: "/a"}, {Workload: "pid:7", Kind: plan.Affinity, Path: "7@1"}, {Workload: "/y", Kind: plan.CgroupControllers, Path: "/x"}}}}}
	for _, tt := range []struct {
		kind  plan.SettingKind
		path  string
		waits bool
	}{{plan.CgroupCPUs, "/a", true}, {plan.CgroupMems, "/a", false}, {plan.CgroupCPUs, "/b", false}, {plan.Affinity, "7@1", true}, {plan.Affinity, "8@1", false}, {plan.CgroupCPUs, "/x/b", true}, {plan.CgroupCPUs, "/x", false}} {
		if got := w.restoring(&plan.Change{Setting: plan.Setting{Kind: tt.kind, Path: tt.path}}); got != tt.waits {
			t.Errorf("%s of %s: %v", tt.kind, tt.path, got)
		}
	}
	process := func(pid int) plan.Target {
		return plan.Target{Processes: []workload.Process{{PID: 5, Start: 1}, {PID: pid, Start: 1}}}
	}
	for _, tt := range []struct {
		step  plan.Step
		waits bool
	}{
		{plan.Step{Workload: "/a"}, true}, {plan.Step{Workload: "/b"}, false}, {plan.Step{Workload: "/x/b", Target: plan.Target{Cgroup: "/x/b"}}, true},
		{plan.Step{Workload: "pid:9", Target: process(7)}, true}, {plan.Step{Workload: "pid:7", Target: process(8)}, false},
	} {
		if got := w.needsRestored(&tt.step); got != tt.waits {
			t.Errorf("%+v: %v", tt.step, got)
		}
	}
}
