//go:build linux

package main

// crowd is the scene of most tests: eight walkers of mixed size, scattered. On
// four nodes of 576 MiB and four CPUs:
//
//   - "wide" is wider than a node in CPUs and in memory, so it must be split;
//   - the others fit a node, and all together fit the machine: 15 threads on 16
//     CPUs, 0.9 GiB of 2;
//   - both ways to be scattered: a policy left on the mapping, and pages merely
//     misplaced;
//   - p1 and p2 sit in the root cgroup together, where no CPU set can be written,
//     so only their affinity can be set.
func crowd() []walkerSpec {
	return []walkerSpec{
		{name: "wide", slot: 0, mib: 528, threads: 6, place: "interleave", unbind: true},
		{name: "db", slot: 1, mib: 80, threads: 2, place: "bind:3", unbind: true},
		{name: "cache", slot: 2, mib: 64, threads: 2, place: "interleave"},
		{name: "web", slot: 3, mib: 32, threads: 1, place: "bind:2"},
		{name: "queue", slot: 4, mib: 48, threads: 1, place: "bind:0", unbind: true},
		{name: "batch", slot: 5, mib: 32, threads: 1, place: "interleave", unbind: true},
		{name: "p1", slot: 6, mib: 32, threads: 1, place: "interleave", unbind: true, plain: true},
		{name: "p2", slot: 7, mib: 24, threads: 1, place: "bind:1", plain: true},
	}
}

// crowdOfEight is for eight nodes of 256 MiB and two CPUs.
func crowdOfEight() []walkerSpec {
	return []walkerSpec{
		{name: "wide", slot: 0, mib: 320, threads: 4, place: "interleave", unbind: true},
		{name: "db", slot: 1, mib: 64, threads: 2, place: "bind:6", unbind: true},
		{name: "cache", slot: 2, mib: 48, threads: 2, place: "interleave"},
		{name: "web", slot: 3, mib: 32, threads: 1, place: "bind:2"},
		{name: "queue", slot: 4, mib: 32, threads: 1, place: "bind:7", unbind: true},
		{name: "p1", slot: 5, mib: 32, threads: 1, place: "interleave", unbind: true, plain: true},
	}
}
