package control

import (
	"testing"

	"github.com/homenode/homenode/core/workload"
)

// Who undoes or holds a workload, or has a rule for it, means its parts too; a cgroup below
// another is no part of it.
func TestPartsAreMeant(t *testing.T) {
	h := Holds{IDs: map[workload.ID]bool{"vm:a": true, "/x": true}}
	for id, want := range map[workload.ID]bool{"vm:a": true, "vm:a/cell0": true, "vm:a/cell01": false, "vm:a/cell": false, "vm:ab/cell0": false, "/x/cell0": false} {
		if h.Has(id) != want || (Which{ID: "vm:a"}).Has(id) != want || Matches("vm:a", &workload.Observation{ID: id}) != want {
			t.Errorf("%s: %t", id, !want)
		}
	}
}
