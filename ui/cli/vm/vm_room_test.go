package vm

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/workload"
)

// What guests hold is in use on the host too: it is counted once.
func TestGuestsAreNotCountedTwice(t *testing.T) {
	g := guest.Guest{Running: true, Resident: 1 << 19} // half of it touched
	g.Home.Placement.Memory = []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}
	got := without([]workload.NodeMemory{{Node: 0, KiB: 3 << 20}, {Node: 1, KiB: 7}}, []guest.Guest{g})
	if want := []workload.NodeMemory{{Node: 0, KiB: 3<<20 - 1<<19}, {Node: 1, KiB: 7}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
