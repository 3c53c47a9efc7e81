package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// TestExplainSharingOnce: what is the same for many workloads is said once, with all their names.
func TestExplainSharingOnce(t *testing.T) {
	const cpus = "8-11,22-23,33-35,44-47,57-59,69-71,81-83,93-95"
	s := api.Sharing{On: true}
	for i := range 4 {
		s.Workloads = append(s.Workloads, api.ShareWork{ID: workload.ID(fmt.Sprintf("encode-%d", i)), Why: "Batch work has CPUs " + cpus + " of nodes 0-7 now."})
		s.Important = append(s.Important, api.ShareHarm{ID: workload.ID(fmt.Sprintf("db-%d", i)), Why: []string{"It is well."}})
	}
	s.Important = append(s.Important, api.ShareHarm{ID: "web", Why: []string{"It is hurt."}})
	var out strings.Builder
	explainSharing(&out, view.Paint{}, s)
	want := "encode-0, encode-1, encode-2, encode-3: Batch work has CPUs " + cpus + " of nodes 0-7 now.\ndb-0, db-1, db-2, db-3: It is well.\nweb: It is hurt.\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

// One CPU is no CPUs, and where to read more is said once.
func TestSharingLineWhereNothingTells(t *testing.T) {
	got := sharingLine(&api.Sharing{Nodes: []api.ShareNode{{CPUs: 1, Given: "1"}}, Signals: []workload.SourceStatus{{Source: "psi"}}, Scheduler: &api.ShareScheduler{}})
	if want := "batch work may keep 1.0 CPUs busy now, on CPU 1; signals of harm: none here; no scheduler is loaded (homenode share status says why)"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

// What `homenode status` says of the scheduler for batch work.
func TestSharingLineOfScheduler(t *testing.T) {
	const why = "It is not loaded again for 9m50s: sysrq: disabled by sysrq-S"
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
