//go:build linux

package main

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
