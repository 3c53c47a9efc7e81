package daemon

import (
	"testing"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// A link says what it weighs by where that is not its bytes.
func TestLinksSayWhatTheyWeighBy(t *testing.T) {
	link := control.Link{Link: workload.Link{Kind: workload.ByTap, Device: "eth0", Name: "eth0", Nodes: topology.Nodes(1), Counted: true, Vhost: true}, Rate: 10, VhostUse: 0.6}
	v := &View{View: control.View{Links: map[workload.ID][]control.Link{"vm:a": {link}}}}
	spec := workload.Spec{Near: []workload.Near{{Device: "eth0", Nodes: topology.Nodes(1), Learned: true, Weight: 0.38}}}
	for _, tt := range []struct {
		bandwidth int64
		spec      *workload.Spec
		why       string
	}{
		{0, &spec, "It weighs as 307 MiB/s: its vhost threads use 0.60 CPUs for it, of 1.60 in all; its memory traffic is not counted."},
		{2000, &spec, ""},
		{0, &workload.Spec{}, ""}, // told not to count
	} {
		got := v.links(&workload.Observation{ID: "vm:a", CPUUse: 1.6, Bandwidth: tt.bandwidth}, tt.spec)
		if len(got) != 1 || got[0].Why != tt.why {
			t.Errorf("%+v, want %q", got, tt.why)
		}
	}
}
