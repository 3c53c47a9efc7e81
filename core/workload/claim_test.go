package workload

import "testing"

func TestClaimCovers(t *testing.T) {
	tests := []struct {
		cgroups string
		cgroup  string
		want    bool
	}{
		{"a.slice/b.scope", "/a.slice/b.scope", true},
		{"/a.slice/b.scope", "a.slice/b.scope/child", true},
		{"/a.slice/b.scope", "/a.slice/b.scope2", false},
		{"/b.scope", "/a.slice/b.scope", false},
		{"b.scope", "/a.slice/b.scope/child", true},
		{"b.scope", "/a.slice/xb.scope", false},
		{`machine-qemu\x2d7\x2d*.scope`, `/machine.slice/machine-qemu\x2d7\x2dweb.scope/libvirt/vcpu0`, true},
		{`machine-qemu\x2d7\x2d*.scope`, `/machine.slice/machine-qemu\x2d71\x2dweb.scope`, false},
		{"a*b*c", "axxbyc", true},
		{"a*b*c", "axxcyb", false},
		{"ab*bc", "abc", false},
		{"*", "", true},
		{"", "/a", false},
	}
	for _, tt := range tests {
		c := Claim{Cgroups: []string{tt.cgroups}}
		if got := c.Covers(tt.cgroup); got != tt.want {
			t.Errorf("%q covers %q: %t", tt.cgroups, tt.cgroup, got)
		}
	}
	if (&Claim{}).Covers("/a") {
		t.Error("no cgroups cover one")
	}
}
