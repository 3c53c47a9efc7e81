package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
)

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
