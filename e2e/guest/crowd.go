//go:build linux

package main

import (
	"fmt"
	"slices"
)

// crowd is the scene of most tests: eight walkers of mixed size, scattered. On
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
func (t *T) crowd() []walkerSpec {
	wide := 96
	if t.shape.Count {
		wide = 528
	}
	return []walkerSpec{
		{name: "wide", slot: 0, mib: wide, threads: 6, place: "interleave", unbind: true},
		{name: "db", slot: 1, mib: 80, threads: 2, place: "bind:3", unbind: true},
		{name: "cache", slot: 2, mib: 64, threads: 2, place: "interleave"},
		{name: "web", slot: 3, mib: 32, threads: 1, place: "bind:2"},
		{name: "queue", slot: 4, mib: 48, threads: 1, place: "bind:0", unbind: true},
		{name: "batch", slot: 5, mib: 32, threads: 1, place: "interleave", unbind: true},
		{name: "p1", slot: 6, mib: 32, threads: 1, place: "interleave", unbind: true, plain: true},
		{name: "p2", slot: 7, mib: 24, threads: 1, place: "bind:1", plain: true},
	}
}

// few is the crowd without those that are like another one: for what is done to them more than once.
func (t *T) few() []walkerSpec {
	return slices.DeleteFunc(t.crowd(), func(w walkerSpec) bool { return w.name == "cache" || w.name == "queue" || w.name == "p2" })
}

// crowdOfEight is for eight nodes of two CPUs.
func crowdOfEight() []walkerSpec {
	return []walkerSpec{
		{name: "wide", slot: 0, mib: 80, threads: 4, place: "interleave", unbind: true},
		{name: "db", slot: 1, mib: 64, threads: 2, place: "bind:6", unbind: true},
		{name: "cache", slot: 2, mib: 48, threads: 2, place: "interleave"},
		{name: "web", slot: 3, mib: 32, threads: 1, place: "bind:2"},
		{name: "queue", slot: 4, mib: 32, threads: 1, place: "bind:7", unbind: true},
		{name: "p1", slot: 5, mib: 32, threads: 1, place: "interleave", unbind: true, plain: true},
	}
}

// askForWide is the configuration that asks for a CPU for each thread of the first
// walker: they rest too much for homenode to see that they are more than a node's.
func (t *T) askForWide(ws []*walker) string {
	return fmt.Sprintf("workloads: [{match: %s, cpus: %d}]\n", ws[0].name, ws[0].threads)
}
