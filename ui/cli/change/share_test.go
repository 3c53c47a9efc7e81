package change

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
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
