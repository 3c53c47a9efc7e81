//go:build linux

package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// NodeFile returns the path of a file of a node.
func NodeFile(node int, name string) string {
	return fmt.Sprintf("/sys/devices/system/node/node%d/%s", node, name)
}

// NodeCPUs returns the CPUs of a node.
func NodeCPUs(node int) Set {
	s, _ := ParseSet(ReadText(NodeFile(node, "cpulist")))
	return s
}

// CPUsOf is the CPUs of all the given nodes.
func CPUsOf(nodes Set) Set {
	var s Set
	for _, n := range nodes.IDs() {
		s |= NodeCPUs(n)
	}
	return s
}

// NodesOf is the nodes that the given CPUs belong to.
func (t *T) NodesOf(cpus Set) Set {
	var s Set
	for n := range t.Shape.Nodes {
		if NodeCPUs(n)&cpus != 0 {
			s |= SetOf(n)
		}
	}
	return s
}

// NodeKiB reads a line of a node's meminfo.
func NodeKiB(node int, field string) int {
	for line := range strings.Lines(ReadText(NodeFile(node, "meminfo"))) {
		f := strings.Fields(line) // Node 0 MemTotal: 1 kB
		if len(f) >= 4 && f[2] == field+":" {
			n, _ := strconv.Atoi(f[3])
			return n
		}
	}
	return 0
}

// SetBalancing switches the kernel's NUMA balancing.
func SetBalancing(on bool) error {
	if !on {
		return WriteText(BalancingFile, "0")
	}
	if err := ScanOften(); err != nil {
		return err
	}
	return WriteText(BalancingFile, "1")
}

// ScanOften has NUMA balancing, while it is on, look at memory ten times as often as usual: a
// test has no minutes to spare.
func ScanOften() error {
	const debug = "/sys/kernel/debug/sched/numa_balancing/"
	for file, value := range map[string]string{"scan_delay_ms": "100", "scan_period_min_ms": "100",
		"scan_period_max_ms": "6000"} {
		if err := WriteText(debug+file, value); err != nil {
			return err
		}
	}
	return nil
}

// BalancingFile is the switch of the kernel's NUMA balancing.
const BalancingFile = "/proc/sys/kernel/numa_balancing"

// Warm lets the machine run; emulated time is close to the host's.
func Warm(d time.Duration) { time.Sleep(d) }

// LLCSwitch is the switch of the kernel's cache-aware scheduling (Linux 7.2).
const LLCSwitch = "/sys/kernel/debug/sched/llc_balancing/enabled"

// Caches returns the last-level caches of the shape, by lowest CPU.
func (t *T) Caches() []Set {
	var out []Set
	size := t.Shape.CPUsPerCache()
	for first := 0; first < t.Shape.CPUs(); first += size {
		var s Set
		for cpu := first; cpu < first+size; cpu++ {
			s |= SetOf(cpu)
		}
		out = append(out, s)
	}
	return out
}

// CachesOf returns the number of caches that have some of the CPUs.
func (t *T) CachesOf(cpus Set) int {
	in := 0
	for _, cache := range t.Caches() {
		if cpus&cache != 0 {
			in++
		}
	}
	return in
}
