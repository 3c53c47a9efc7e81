// Package lab is what the tests in guests share: the test itself (T), and what a test
// works with.
//
// The process: PID1 sets the guest up (setup.go), runs each test in a process of its own
// (pid1.go) and removes what a test leaves behind. RunTest is that process (t.go).
//
// What tests start: walkers (walker.go), the programs that a test places; crowds of them
// (crowd.go); the daemon and the commands of homenode (homenode.go); commands as an
// ordinary user and as children of PID 1 (orphan.go).
//
// What tests read: files of the kernel (files.go), CPU sets and node sets (set.go), cgroups
// (cgroup.go), affinity (affinity.go), nodes and caches (node.go), pages by node
// (numamaps.go), snapshots of everything that homenode changes (snapshot.go), whether a
// walker is at home (home.go), and what the scheduler did (trace.go).
//
// A check that only one package of tests makes does not belong here. The packages kernel,
// home, share, runtimes and count import this one, and it imports none of them.
package lab
