// Package observe looks at the host: it finds the workloads and says, for each,
// where its memory lies, where its CPU time goes and what it may use. It reads
// cgroup v2 and /proc and writes nothing.
//
// # What is a workload
//
// Where a cgroup v2 hierarchy with the cpuset controller is mounted, its leaves
// are looked at. A leaf is a cgroup that holds processes; whatever lies below it
// belongs to it (threaded cgroups, whose processes the kernel lists at the domain
// root, and plain cgroups, which can then have no domain controllers of their
// own: Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint").
// Elsewhere (cgroup v1, hybrid, none) all processes together are one such leaf:
// process mode. A controller-less v2 hierarchy is no use here, since no CPU set
// could be enforced through it.
//
// A tree is a process whose parent is outside the leaf, with its descendants in
// the leaf. Big means resident memory ≥ MinMemory or CPU use ≥ MinCPU.
//
//  1. A leaf that is shared by nature never is a workload: the root cgroup,
//     session-*.scope, everything in process mode.
//  2. A leaf with two or more big trees is not one workload either.
//  3. Any other leaf that is big as a whole is one workload, named by its path.
//  4. In the leaves of 1 and 2 each big tree gives a workload "pid:N": its topmost
//     big process with its descendants. Small ancestors do not glue: below a small
//     process each child whose subtree is big is looked at by itself; only when
//     none is (make and its many compilers) the process with all of them is taken.
//     A descendant that is big by itself and another program (its name differs) is a
//     workload of its own: what a big supervisor started is not part of it.
//  5. Everything below the thresholds is small: counted, not reported, and its
//     memory is in Snapshot.Unmanaged.
//
// A registered process is a workload "pid:N" whatever its size; its leaf is treated
// as in 2.
//
// Kernel threads, PID 1, init.scope and this process (with its own leaf) are no
// workloads.
//
// # Stability
//
// What is reported stays reported, under the same ID, until it is below half of
// both thresholds for 30 s, or gone. A leaf goes from one workload to several, or
// back, only when what says so holds for 30 s. A process that grows big above one
// that is reported gets a workload of its own beside it.
//
// # Cost
//
// A look reads, per leaf, its list of processes, cpu.stat and memory.numa_stat, and
// two cpuset files if it is reported; per process of a leaf that is neither small nor
// quiet, its stat; per thread of a busy multi-threaded process, its stat. The dear file
// is numa_maps: the kernel walks the page tables under the mmap lock to write it. It is
// read when a process is first reported and then within a budget of time (mapsShare).
// The parsers are this package's own, over []byte where they are in the hot path:
// procfs makes strings and structs of every field of every file, and has neither
// numa_maps nor memory.numa_stat. docs/observe.md has the figures.
//
// Not in here: decisions, and anything that changes the host.
package observe
