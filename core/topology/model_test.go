package topology

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"
)

// The model of the CPU is the first CPU's of /proc/cpuinfo, goes through JSON, and comes
// from hwloc's CPUModel.
func TestCPUModel(t *testing.T) {
	x86 := "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654 96-Core Processor\n\nprocessor\t: 1\nmodel name\t: other\n"
	for _, tt := range []struct{ cpuinfo, want string }{
		{x86, "AMD EPYC 9654 96-Core Processor"},
		{"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "implementer 0x41 part 0xd40"},
		{"Serial\t: secret\n", ""},
	} {
		h, err := FromSynthetic("package:1 core:2")
		if err != nil {
			t.Fatal(err)
		}
		tree := fakeTree(h)
		tree["proc/cpuinfo"] = &fstest.MapFile{Data: []byte(tt.cpuinfo)}
		if h, err = FromSysfs(tree); err != nil || h.CPU != tt.want {
			t.Fatalf("%q, want %q; %v", h.CPU, tt.want, err)
		}
		var b bytes.Buffer
		if err := h.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		if back, err := FromJSON(&b); err != nil || back.CPU != tt.want {
			t.Errorf("through JSON %q; %v", back.CPU, err)
		}
	}
	h, err := FromHwlocXML(strings.NewReader(`<topology version="2.0"><object type="Machine" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" allowed_nodeset="0x1">
<object type="NUMANode" os_index="0" cpuset="0x1" nodeset="0x1" local_memory="1048576"/>
<object type="Package" os_index="0" cpuset="0x1"><info name="CPUModel" value="Example 9000"/><object type="Core" os_index="0" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object></object></object></topology>`))
	if err != nil || h.CPU != "Example 9000" {
		t.Errorf("hwloc: %v %v", h, err)
	}
}
