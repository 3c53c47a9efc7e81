package scx

import (
	"cmp"
	"fmt"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Config is what the scheduler goes by. Each part can be changed while it runs.
type Config struct {
	CPUs  []CPU  // the CPUs that may run batch work
	Nodes []Node // bounds; a node that is not named has none
	// how long a batch task waits at most, whatever speaks against it; 0 is 1 s. At most a quarter of Timeout and 5 s
	Guard time.Duration
	Slice time.Duration // how long one runs while others wait; 0 is 2 ms. The kernel rounds it up to its tick
	// for so long after online-strict work the rest of its core stays free; 0 is 200 µs, negative none
	Hold time.Duration
	// Timeout is how long a task may wait before the kernel ends the scheduler; 0 is 30 s, the
	// most the kernel takes. It can not be changed while the scheduler runs.
	Timeout time.Duration
	// NoGuard is for tests that show what the guard is good for: without it the watchdog ends the scheduler.
	NoGuard bool
}

// CPU says where a CPU is.
type CPU struct {
	ID       topology.CPUID
	Node     topology.NodeID
	LLC      int             // any number; CPUs with the same one share a last-level cache
	Siblings topology.CPUSet // the other CPUs of its core
}

// Node bounds the batch work of a node.
type Node struct {
	ID topology.NodeID
	// CPUs that batch work may use at a time; a fraction of a CPU is had for part of each 0.1 s; negative: no bound
	Budget float64
	Idle   int // so many CPUs are kept idle
}

// Cgroup has a tier of its own.
type Cgroup struct {
	ID    uint64 // the inode of its folder
	Tier  workload.Tier
	Nodes topology.NodeSet // where its batch tasks may run; empty: on any node
}

// ConfigOf describes the machine, without bounds.
func ConfigOf(h *topology.Host) Config {
	var c Config
	for _, n := range h.Nodes {
		for id := range n.CPUs.All() {
			if h.Online.Has(id) {
				c.CPUs = append(c.CPUs, CPU{ID: id, Node: n.ID, LLC: -1})
			}
		}
	}
	for i := range c.CPUs {
		cpu := &c.CPUs[i]
		for n, l := range h.LLCs {
			if l.CPUs.Has(cpu.ID) {
				cpu.LLC = n
			}
		}
		for _, core := range h.Cores {
			if core.CPUs.Has(cpu.ID) {
				cpu.Siblings = core.CPUs.Minus(topology.CPUs(cpu.ID))
			}
		}
	}
	return c
}

func (c Config) timeout() time.Duration { return cmp.Or(c.Timeout, 30*time.Second) }

func (c Config) check() error {
	if len(c.CPUs) == 0 {
		return fmt.Errorf("no CPUs")
	}
	if t := c.timeout(); t < time.Second || t > 30*time.Second {
		return fmt.Errorf("timeout %v: 1s to 30s", t)
	}
	if g := cmp.Or(c.Guard, time.Second); g < 10*time.Millisecond || g > min(5*time.Second, c.timeout()/4) {
		return fmt.Errorf("guard %v: 10ms to %v", g, min(5*time.Second, c.timeout()/4))
	}
	if s := cmp.Or(c.Slice, 2*time.Millisecond); s < 100*time.Microsecond || s > time.Second {
		return fmt.Errorf("slice %v: 100µs to 1s", s)
	}
	if c.Hold > 100*time.Millisecond {
		return fmt.Errorf("hold %v: at most 100ms", c.Hold)
	}
	seen := map[topology.CPUID]bool{}
	for _, cpu := range c.CPUs {
		switch {
		case cpu.ID < 0 || cpu.ID >= maxCPUs:
			return fmt.Errorf("CPU %d: 0 to %d", cpu.ID, maxCPUs-1)
		case seen[cpu.ID]:
			return fmt.Errorf("CPU %d twice", cpu.ID)
		case cpu.Node < 0 || cpu.Node >= maxNodes:
			return fmt.Errorf("node %d of CPU %d: 0 to %d", cpu.Node, cpu.ID, maxNodes-1)
		case cpu.Siblings.Len() > maxSiblings:
			return fmt.Errorf("CPU %d has %d siblings: at most %d", cpu.ID, cpu.Siblings.Len(), maxSiblings)
		}
		seen[cpu.ID] = true
	}
	for _, n := range c.Nodes {
		if n.ID < 0 || n.ID >= maxNodes {
			return fmt.Errorf("node %d: 0 to %d", n.ID, maxNodes-1)
		}
	}
	return nil
}
