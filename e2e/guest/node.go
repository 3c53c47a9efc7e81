//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func nodeFile(node int, name string) string {
	return fmt.Sprintf("/sys/devices/system/node/node%d/%s", node, name)
}

func nodeCPUs(node int) set {
	s, _ := parseSet(readText(nodeFile(node, "cpulist")))
	return s
}

// cpusOf is the CPUs of all the given nodes.
func cpusOf(nodes set) set {
	var s set
	for _, n := range nodes.ids() {
		s |= nodeCPUs(n)
	}
	return s
}

// nodesOf is the nodes that the given CPUs belong to.
func (t *T) nodesOf(cpus set) set {
	var s set
	for n := range t.shape.Nodes {
		if nodeCPUs(n)&cpus != 0 {
			s |= setOf(n)
		}
	}
	return s
}

// nodeKiB reads a line of a node's meminfo.
func nodeKiB(node int, field string) int {
	for line := range strings.Lines(readText(nodeFile(node, "meminfo"))) {
		f := strings.Fields(line) // Node 0 MemTotal: 1 kB
		if len(f) >= 4 && f[2] == field+":" {
			n, _ := strconv.Atoi(f[3])
			return n
		}
	}
	return 0
}

// setBalancing switches the kernel's NUMA balancing.
func setBalancing(on bool) error {
	if !on {
		return writeText(balancingFile, "0")
	}
	if err := scanOften(); err != nil {
		return err
	}
	return writeText(balancingFile, "1")
}

// scanOften has NUMA balancing, while it is on, look at memory ten times as often as usual: a
// test has no minutes to spare.
func scanOften() error {
	const debug = "/sys/kernel/debug/sched/numa_balancing/"
	for file, value := range map[string]string{"scan_delay_ms": "100", "scan_period_min_ms": "100", "scan_period_max_ms": "6000"} {
		if err := writeText(debug+file, value); err != nil {
			return err
		}
	}
	return nil
}

const balancingFile = "/proc/sys/kernel/numa_balancing"

// warm lets the machine run; emulated time is close to the host's.
func warm(d time.Duration) { time.Sleep(d) }

// llcSwitch is the switch of the kernel's cache-aware scheduling (Linux 7.2).
const llcSwitch = "/sys/kernel/debug/sched/llc_balancing/enabled"

// caches returns the last-level caches of the shape, by lowest CPU.
func (t *T) caches() []set {
	var out []set
	size := t.shape.CPUsPerCache()
	for first := 0; first < t.shape.CPUs(); first += size {
		var s set
		for cpu := first; cpu < first+size; cpu++ {
			s |= setOf(cpu)
		}
		out = append(out, s)
	}
	return out
}

// cachesOf returns the number of caches that have some of the CPUs.
func (t *T) cachesOf(cpus set) int {
	in := 0
	for _, cache := range t.caches() {
		if cpus&cache != 0 {
			in++
		}
	}
	return in
}
