package see

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/ui/view"
)

// TestStatusShowsTypes: status has the share of each type of memory of all workloads, where one has other than DRAM.
func TestStatusShowsTypes(t *testing.T) {
	all := []api.Workload{{MemoryKiB: 60}, {MemoryKiB: 40, MemoryByType: []api.TypeKiB{{Type: "dram", KiB: 26}, {Type: "cxl", KiB: 14, Demoted: true}}}}
	var b strings.Builder
	printTypes(&b, view.Paint{}, all)
	want := "memory: DRAM 86.0 %, CXL 14.0 % (the kernel moves cold pages there; they count as local and stay)\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	printTypes(&b, view.Paint{}, all[:1])
	if b.Len() > 0 {
		t.Errorf("all DRAM: %q", b.String())
	}
}
