package see

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

// One CPU is no CPUs, and where to read more is said once.
func TestSharingLineWhereNothingTells(t *testing.T) {
	got := sharingLine(&api.Sharing{Nodes: []api.ShareNode{{CPUs: 1, Given: "1"}}, Signals: []workload.SourceStatus{{Source: "psi"}}, Scheduler: &api.ShareScheduler{}})
	if want := "batch work may keep 1.0 CPUs busy now, on CPU 1; signals of harm: none here; no scheduler is loaded (homenode share status says why)"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

// What `homenode status` says of the scheduler for batch work.
func TestSharingLineOfScheduler(t *testing.T) {
	const why = "It is not loaded again for 9 min 50 s: sysrq: disabled by sysrq-S"
	for name, x := range map[string]struct {
		scheduler *api.ShareScheduler
		want      string
	}{
		"runs":       {&api.ShareScheduler{Enabled: true}, "; the scheduler is loaded"},
		"was ended":  {&api.ShareScheduler{Why: why, End: &share.SchedulerEnd{Kind: share.EndSysRq}}, "; the kernel ended the scheduler. " + why},
		"refused":    {&api.ShareScheduler{Why: "It is being loaded again.", End: &share.SchedulerEnd{Kind: share.EndRefused}}, "; no scheduler is loaded. It is being loaded again."},
		"cannot run": {&api.ShareScheduler{Why: "This kernel has no sched_ext."}, "; no scheduler is loaded (homenode share status says why)"},
	} {
		got := sharingLine(&api.Sharing{Nodes: []api.ShareNode{{CPUs: 2, Given: "0-1"}}, Scheduler: x.scheduler})
		if !strings.HasSuffix(got, x.want) {
			t.Errorf("%s: %q does not end in %q", name, got, x.want)
		}
	}
}
