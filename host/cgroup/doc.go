// Package cgroup carries out steps whose target is a cgroup v2: it writes
// cpuset.cpus and cpuset.mems, turns the cpuset controller on where it is off,
// and hands page moves to the mover it was given.
//
// Facts of the kernel that shape it (Documentation/admin-guide/cgroup-v2.rst,
// kernel/cgroup/cpuset.c):
//
//   - cpuset.cpus is a wish; what holds is cpuset.cpus.effective. A wish that
//     shares nothing with the parent's CPUs is accepted and has no effect. So
//     every write is checked by what is effective then.
//   - A populated cgroup refuses to go back to the empty set ("inherit") with
//     ENOSPC on most kernels (validate_change). The set of all possible CPUs, or
//     nodes, has the same effect for good, for the kernel cuts it to what the
//     parent has, now and later. Restore writes that instead.
//   - Turning the controller off drops the sets of every child. So it is turned
//     off only when it was off before and no child has a set any more.
//   - The write of cpuset.mems moves pages and returns when that is done. It takes the lock of
//     each process's memory, with all cgroups of the host waiting: see mems.go.
//
// A step with another result than asked is restored before the error returns, so
// that a failed step leaves what was there.
//
// Words: the mount is where cgroup v2 is mounted; a path is below it ("/a/b").
//
// Not in here: pages (package process), choices, and the journal.
//
// Invariant: Homenode writes cpuset.mems only while no process of the cgroup can run: a process that holds its memory
// lock would block every cgroup of the host. A cgroup that does not freeze in time is left alone
// (TestMemsOfRunningProcesses, TestNotFrozen, homenode.cpuset-locked).
//
// Invariant: A cgroup that another program froze is never thawed, and a killed homenode leaves nothing frozen
// (TestMemsBelowFrozen, TestGuardian).
package cgroup
