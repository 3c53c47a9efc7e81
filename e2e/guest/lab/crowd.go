//go:build linux

package lab

import (
	"fmt"
	"slices"
)

// Crowd is the scene of most tests: eight walkers of mixed size, scattered. On
// four nodes of four CPUs:
//
//   - "wide" has more threads than a node has CPUs; where accesses are counted also
//     more memory than a node, which takes the emulated guest long to move;
//   - the others fit a node, and all together fit the machine: 15 threads on 16
//     CPUs;
//   - both ways to be scattered: a policy left on the mapping, and pages merely
//     misplaced;
//   - p1 and p2 sit in the root cgroup together, where no CPU set can be written,
//     so only their affinity can be set.
func (t *T) Crowd() []WalkerSpec {
	wide := 96
	if t.Shape.Count {
		wide = 528
	}
	return []WalkerSpec{
		{Name: "wide", Slot: 0, MiB: wide, Threads: 6, Place: "interleave", Unbind: true},
		{Name: "db", Slot: 1, MiB: 80, Threads: 2, Place: "bind:3", Unbind: true},
		{Name: "cache", Slot: 2, MiB: 64, Threads: 2, Place: "interleave"},
		{Name: "web", Slot: 3, MiB: 32, Threads: 1, Place: "bind:2"},
		{Name: "queue", Slot: 4, MiB: 48, Threads: 1, Place: "bind:0", Unbind: true},
		{Name: "batch", Slot: 5, MiB: 32, Threads: 1, Place: "interleave", Unbind: true},
		{Name: "p1", Slot: 6, MiB: 32, Threads: 1, Place: "interleave", Unbind: true, Plain: true},
		{Name: "p2", Slot: 7, MiB: 24, Threads: 1, Place: "bind:1", Plain: true},
	}
}

// Few is the crowd without those that are like another one: for what is done to them more than once.
func (t *T) Few() []WalkerSpec {
	return slices.DeleteFunc(t.Crowd(), func(w WalkerSpec) bool {
		return w.Name == "cache" || w.Name == "queue" ||
			w.Name == "p2"
	})
}

// CrowdOfEight is for eight nodes of two CPUs.
func CrowdOfEight() []WalkerSpec {
	return []WalkerSpec{
		{Name: "wide", Slot: 0, MiB: 80, Threads: 4, Place: "interleave", Unbind: true},
		{Name: "db", Slot: 1, MiB: 64, Threads: 2, Place: "bind:6", Unbind: true},
		{Name: "cache", Slot: 2, MiB: 48, Threads: 2, Place: "interleave"},
		{Name: "web", Slot: 3, MiB: 32, Threads: 1, Place: "bind:2"},
		{Name: "queue", Slot: 4, MiB: 32, Threads: 1, Place: "bind:7", Unbind: true},
		{Name: "p1", Slot: 5, MiB: 32, Threads: 1, Place: "interleave", Unbind: true, Plain: true},
	}
}

// AskForWide is the configuration that asks for a CPU for each thread of the first
// walker: they rest too much for homenode to see that they are more than a node's.
func (t *T) AskForWide(ws []*Walker) string {
	return fmt.Sprintf("workloads: [{match: %s, cpus: %d}]\n", ws[0].Name, ws[0].Threads)
}
