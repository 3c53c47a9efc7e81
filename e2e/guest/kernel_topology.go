//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// kernelTopology: the guest is the machine that its shape describes.
func kernelTopology(t *T) {
	s := t.shape
	online := t.set(t.read("/sys/devices/system/node/online"))
	if online.size() != s.Nodes {
		t.Fatalf("nodes online %s, the shape has %d", online, s.Nodes)
	}
	for n := range s.Nodes {
		var want []string
		for _, d := range s.Distance[n] {
			want = append(want, strconv.Itoa(d))
		}
		if got := t.read(nodeFile(n, "distance")); got != strings.Join(want, " ") {
			t.Fatalf("node%d distance %q, the shape has %q", n, got, strings.Join(want, " "))
		}
		first := n * s.CPUsPerNode
		if got, want := t.read(nodeFile(n, "cpulist")), fmt.Sprintf("%d-%d", first, first+s.CPUsPerNode-1); got != want {
			t.Fatalf("node%d CPUs %q, the shape has %q", n, got, want)
		}
		// The kernel keeps some for itself, most of it on the first and last node.
		if mib := nodeKiB(n, "MemTotal") >> 10; mib > s.NodeMiB || mib < s.NodeMiB*2/3 {
			t.Fatalf("node%d has %d MiB, the shape %d", n, mib, s.NodeMiB)
		}
	}
	for c := range s.CPUs() {
		got := t.set(t.read(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c)))
		if want := setOf(c&^1, c|1); got != want {
			t.Fatalf("cpu%d SMT siblings %s, wanted %s", c, got, want)
		}
	}
	t.Textf("%d nodes, %d CPUs, Linux %s", s.Nodes, s.CPUs(), t.read("/proc/sys/kernel/osrelease"))
}
