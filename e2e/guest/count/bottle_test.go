//go:build linux

package count

import "testing"

// Ten programs of one CPU on twelve: the kubelet keeps the first two for the system.
func TestKubeletRule(t *testing.T) {
	for _, c := range []struct {
		cpus, each, n int
		want          string
	}{
		{12, 1, 0, "2"}, {12, 1, 9, "11"}, {12, 1, 10, "0-1"}, {12, 2, 0, "2-3"}, {12, 2, 4, "10-11"}, {12, 2, 5, "0-1"}, {24, 2, 9, "20-21"},
	} {
		if got := kubeletRule(c.cpus, c.each)(c.n).String(); got != c.want {
			t.Errorf("program %d of %d CPUs, on %d: CPUs %s, want %s", c.n, c.each, c.cpus, got, c.want)
		}
	}
}

// The memory of its own that a process has mapped ends where its libraries begin.
func TestOwnMappings(t *testing.T) {
	const maps = `55d0a0000000-55d0a0400000 r-xp 00000000 fe:00 1 /usr/lib/postgresql/17/bin/postgres
55d0b0000000-55d0b0200000 rw-p 00000000 00:00 0 [heap]
7f12a0000000-7f12a4800000 rw-s 00000000 00:01 3 /dev/zero (deleted)
7f12a4900000-7f12a4a00000 rw-p 00000000 00:00 0
7f12a5000000-7f12a5200000 r--p 00000000 fe:00 9 /usr/lib/x86_64-linux-gnu/libc.so.6
7f12a5200000-7f12a5201000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
`
	if from, to := ownMappings(maps); from != 0x7f12a0000000 || to != 0x7f12a4a00000 {
		t.Errorf("from %x to %x", from, to)
	}
	if from, _ := ownMappings("7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\n"); from != 0 {
		t.Errorf("from %x", from)
	}
}
