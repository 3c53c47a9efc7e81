package arrange

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/workload"
)

// What stands nowhere in the way of a partition is kept where it is by it; in any case
// the plan under the new partition breaks no rule.
func TestPartitionMovesUnderWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(3).Draw(t, "host")
		l := place.NewLedger(st)
		var subjects []*place.Subject
		for i := range rapid.IntRange(0, 6).Draw(t, "workloads") {
			class := rapid.SampledFrom(workload.Classes).Draw(t, "class")
			spec := workload.Spec{ID: workload.ID(fmt.Sprint("w", i)), Class: class, CPUs: rapid.IntRange(1, 6).Draw(t, "CPUs"), Importance: 50, Given: true}
			if r := l.Place(place.Request{Spec: spec}); r.Placed() {
				l.Commit(r.Placement)
				subjects = append(subjects, &place.Subject{Spec: spec, Observation: workload.Observation{ID: spec.ID, Kind: workload.InCgroup, Cgroup: string(spec.ID),
					Processes: []workload.Process{{PID: 10 + i, Start: 1}}, CPUs: st.Host.Allowed, Mems: st.Host.AllowedMems}})
			}
		}
		st.Placements = l.Placements()
		partition := rapid.SampledFrom([]plan.Partition{"any", "shared", "dedicated", "30%", "50%", "80%"}).Draw(t, "partition")
		if err := partition.Apply(st.Host, &st.Policy); err != nil {
			t.Fatal(err)
		}
		blocks := place.InTheWay(st)
		next := Arrange(st, subjects, Options{})
		if bad := plan.CheckPlan(st, next); len(bad) > 0 {
			t.Fatalf("plan.CheckPlan: %v", bad)
		}
		if len(blocks) > 0 {
			return
		}
		for _, p := range st.Placements {
			for _, q := range next.Placements {
				if p.Workload == q.Workload && p.Class == workload.Dedicated && !p.CPUs.Equal(q.CPUs) {
					t.Fatalf("%s went from CPUs %v to %v under partition %s, with nothing in the way", p.Workload, p.CPUs, q.CPUs, partition)
				}
			}
		}
	})
}
