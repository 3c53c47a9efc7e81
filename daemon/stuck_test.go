package daemon

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
)

// A change that has not come back may yet turn on the controllers above its cgroup: they are not
// reported as restored meanwhile. Hostile seed 22200038.
func TestControllersAboveAStuckChange(t *testing.T) {
	d := &Daemon{stuck: map[callKey]int{{step, "w2", "/a.slice/w2"}: 1}}
	for _, tt := range []struct {
		kind plan.SettingKind
		path string
		want bool
	}{
		{plan.CgroupControllers, "/a.slice", true},
		{plan.CPUController, "/", true},
		{plan.CgroupControllers, "/a.slice/w2", false},
		{plan.CgroupControllers, "/a", false},
		{plan.CgroupCPUs, "/a.slice", false},
	} {
		if got := d.stuckBelow(&plan.Entry{Kind: tt.kind, Path: tt.path}); got != tt.want {
			t.Errorf("%s of %s: %t, want %t", tt.kind, tt.path, got, tt.want)
		}
	}
}
