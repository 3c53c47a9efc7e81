package arrange

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestResizeKeepsCPUs: dedicated work that shrinks keeps CPUs that it had, in the fewest caches; work
// that grows keeps all.
func TestResizeKeepsCPUs(t *testing.T) {
	for _, c := range []struct {
		had  string
		want int
		kept int
	}{
		{"2-3,10-11", 2, 2},
		{"0-3,8-11", 4, 4},
		{"0-1,8-9", 6, 4},
		{"1,3,9,11", 8, 4},
	} {
		t.Run(fmt.Sprint(c.had, " to ", c.want), func(t *testing.T) {
			st := onHost(twoNodes)
			had, _ := topology.ParseCPUSet(c.had)
			old := dedicatedOn("a", 0, 1<<20, had.Slice()...)
			st.Placements = []plan.Placement{old}
			p := Arrange(st, []*place.Subject{given(seen("a", 2, c.had, "0", gib), wantClass(workload.Dedicated, c.want))}, options)
			now := place.Of(p.Placements, "a")
			if now == nil || now.CPUs.Len() != c.want || now.CPUs.Overlap(old.CPUs) != c.kept {
				t.Fatalf("has %+v, want %d CPUs, %d of them of %s", now, c.want, c.kept, c.had)
			}
			if bad := plan.CheckPlan(st, p); len(bad) > 0 {
				t.Error(bad)
			}
		})
	}
}
