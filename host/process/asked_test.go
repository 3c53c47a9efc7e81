package process

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

// A step that names a node moves only memory that the process asked for there.
func TestMeant(t *testing.T) {
	const maps = "7f0000000000-7f0000200000 rw-p 00000000 00:00 0\n7f0000400000-7f0000600000 rw-p 00000000 00:00 0\n7f0000800000-7f0000a00000 rw-p 00000000 00:00 0\n"
	const numa = "7f0000000000 prefer (many):0 anon=2 N1=2 kernelpagesize_kB=4\n7f0000400000 bind:1 anon=2 N1=2 kernelpagesize_kB=4\n7f0000800000 default anon=2 N0=2 kernelpagesize_kB=4\n"
	for _, tt := range []struct {
		asked topology.NodeSet
		want  []uintptr
	}{
		{topology.NodeSet{}, []uintptr{0x7f0000000000, 0x7f0000400000, 0x7f0000800000}},
		{topology.Nodes(0), []uintptr{0x7f0000000000}}, {topology.Nodes(1), []uintptr{0x7f0000400000}}, {topology.Nodes(2), nil},
	} {
		all, err := parseMaps(strings.NewReader(maps), nil)
		if err == nil {
			err = parseNumaMaps(strings.NewReader(numa), all)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := meant(all, tt.asked)
		if len(got) != len(tt.want) {
			t.Fatalf("asked for on %v: %+v", tt.asked, got)
		}
		for i := range got {
			if got[i].start != tt.want[i] {
				t.Errorf("asked for on %v: %#x", tt.asked, got[i].start)
			}
		}
	}
}
