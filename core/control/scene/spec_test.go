package scene

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/workload"
)

// What `homenode run` was told goes over what is derived, and what it was not told stays.
func TestSpecOfWhatRunPlaced(t *testing.T) {
	learned := []workload.Near{{Device: "eth0"}}
	derived := workload.Spec{ID: "pid:7", Name: "x", Class: workload.Shared, CPUs: 1, Importance: 30, Memory: 5, HugePage: 6, SMT: workload.SMTPrefer, Near: learned}
	for _, tt := range []struct{ asked, want workload.Spec }{
		{workload.Spec{Name: "db", Class: workload.Dedicated, CPUs: 2},
			workload.Spec{ID: "pid:7", Name: "db", Class: workload.Dedicated, CPUs: 2, Importance: 30, Memory: 5, HugePage: 6, SMT: workload.SMTPrefer, Given: true}},
		{workload.Spec{Name: "db", Class: workload.Shared, CPUs: 2, Memory: 9, HugePage: 2048, SMT: workload.SMTIsolate, Near: []workload.Near{{Device: "eth1"}}},
			workload.Spec{ID: "pid:7", Name: "db", Class: workload.Shared, CPUs: 2, Importance: 30, Memory: 9, HugePage: 2048, SMT: workload.SMTIsolate, Near: []workload.Near{{Device: "eth1"}}, Given: true}},
	} {
		a := Admission{Spec: tt.asked}
		if diff := cmp.Diff(tt.want, a.over(derived)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
