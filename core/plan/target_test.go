package plan

import (
	"testing"

	"github.com/homenode/homenode/core/workload"
)

// TestOwn: a target is known by its cgroup, or by the root of its tree of processes, whatever PIDs the
// younger ones have.
func TestOwn(t *testing.T) {
	tree := []workload.Process{{PID: 126, Start: 900}, {PID: 232, Start: 700}, {PID: 300, Start: 800}}
	for _, tt := range []struct {
		target Target
		want   string
	}{
		{Target{Kind: workload.InCgroup, Cgroup: "/a", Processes: tree}, "/a"},
		{Target{Kind: workload.InCache, Cgroup: "/a"}, "/a"},
		{Target{Kind: workload.InProcess, Cgroup: "/", Processes: tree}, "232@700"},
		{Target{Kind: workload.InProcess}, ""},
		{Target{Kind: workload.InHost, Host: "proc/sys/vm/a"}, ""},
	} {
		if got := tt.target.Own(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.target, got, tt.want)
		}
	}
}
