//go:build linux

package main

import (
	"fmt"
	"os"
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

// kernelCaches: the kernel gives each socket of a node a last-level cache, and its cache-aware scheduling
// can be switched off and on.
func kernelCaches(t *T) {
	for _, cache := range t.caches() {
		for _, cpu := range cache.ids() {
			got := t.set(t.read(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache/index3/shared_cpu_list", cpu)))
			if got != cache {
				t.Fatalf("cpu%d shares its last-level cache with %s, the shape says %s", cpu, got, cache)
			}
		}
	}
	if _, err := os.Stat(llcSwitch); err != nil {
		t.Skipf("this kernel has no cache-aware scheduling: %v", err)
	}
	if got := t.read(llcSwitch); got != "1" {
		t.Fatalf("cache-aware scheduling is %q from the start, 1 was found with Linux 7.3", got)
	}
	t.Defer(func() { writeText(llcSwitch, "1") })
	for _, value := range []string{"0", "1"} {
		t.write(llcSwitch, value)
		if got := t.read(llcSwitch); got != value {
			t.Fatalf("cache-aware scheduling is %q after %s was written", got, value)
		}
	}
	t.Textf("%d caches on %d nodes", len(t.caches()), t.shape.Nodes)
}
