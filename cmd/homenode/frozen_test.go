package main

import "testing"

// What systemd is about to write is the scope's: a command may have made cgroups of its own in it.
func TestScopeOf(t *testing.T) {
	for _, x := range []struct{ cgroup, want string }{
		{"/system.slice/homenode-1.scope", "/system.slice/homenode-1.scope"},
		{"/system.slice/homenode-1.scope/payload/web", "/system.slice/homenode-1.scope"},
		{"/system.slice/homenode-1.scope.d/payload", ""},
		{"/machine.slice/other.scope", ""},
		{"/", ""},
	} {
		if got := scopeOf(x.cgroup, "homenode-1.scope"); got != x.want {
			t.Errorf("%s: %q, want %q", x.cgroup, got, x.want)
		}
	}
}
