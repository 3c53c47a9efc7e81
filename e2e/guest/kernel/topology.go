//go:build linux

package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// kernelTopology: the guest is the machine that its shape describes.
func kernelTopology(t *lab.T) {
	s := t.Shape
	online := t.Set(t.Read("/sys/devices/system/node/online"))
	if online.Size() != s.Nodes {
		t.Fatalf("nodes online %s, the shape has %d", online, s.Nodes)
	}
	for n := range s.Nodes {
		var want []string
		for _, d := range s.Distance[n] {
			want = append(want, strconv.Itoa(d))
		}
		if got := t.Read(lab.NodeFile(n, "distance")); got != strings.Join(want, " ") {
			t.Fatalf("node%d distance %q, the shape has %q", n, got, strings.Join(want, " "))
		}
		first := n * s.CPUsPerNode
		if got, want := t.Read(lab.NodeFile(n, "cpulist")),
			fmt.Sprintf("%d-%d", first, first+s.CPUsPerNode-1); got != want {
			t.Fatalf("node%d CPUs %q, the shape has %q", n, got, want)
		}
		// The kernel keeps some for itself, most of it on the first and last node.
		if mib := lab.NodeKiB(n, "MemTotal") >> 10; mib > s.NodeMiB || mib < s.NodeMiB*2/3 {
			t.Fatalf("node%d has %d MiB, the shape %d", n, mib, s.NodeMiB)
		}
	}
	for c := range s.CPUs() {
		got := t.Set(t.Read(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", c)))
		if want := lab.SetOf(c&^1, c|1); got != want {
			t.Fatalf("cpu%d SMT siblings %s, wanted %s", c, got, want)
		}
	}
	t.Textf("%d nodes, %d CPUs, Linux %s", s.Nodes, s.CPUs(), t.Read("/proc/sys/kernel/osrelease"))
}

// kernelCaches: the kernel gives each socket of a node a last-level cache, and its cache-aware scheduling
// can be switched off and on.
func kernelCaches(t *lab.T) {
	for _, cache := range t.Caches() {
		for _, cpu := range cache.IDs() {
			got := t.Set(t.Read(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache/index3/shared_cpu_list", cpu)))
			if got != cache {
				t.Fatalf("cpu%d shares its last-level cache with %s, the shape says %s", cpu, got, cache)
			}
		}
	}
	if _, err := os.Stat(lab.LLCSwitch); err != nil {
		t.Skipf("this kernel has no cache-aware scheduling: %v", err)
	}
	if got := t.Read(lab.LLCSwitch); got != "1" {
		t.Fatalf("cache-aware scheduling is %q from the start, 1 was found with Linux 7.3", got)
	}
	t.Defer(func() { lab.WriteText(lab.LLCSwitch, "1") })
	for _, value := range []string{"0", "1"} {
		t.Write(lab.LLCSwitch, value)
		if got := t.Read(lab.LLCSwitch); got != value {
			t.Fatalf("cache-aware scheduling is %q after %s was written", got, value)
		}
	}
	t.Textf("%d caches on %d nodes", len(t.Caches()), t.Shape.Nodes)
}
