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
//  1. A leaf that is shared by nature never is a workload: the root cgroup, the scopes
//     of terminals (session-*.scope and those of tmux and VTE), that of this process,
//     everything in process mode.
//  2. A leaf with two or more big trees is not one workload either.
//  3. Any other leaf that is big as a whole is one workload, named by its path.
//  4. In the leaves of 1 and 2 each big tree gives a workload "pid:N": its topmost
//     big process with its descendants. Small ancestors do not glue: below a small
//     process each child whose subtree is big is looked at by itself; only when
//     none is (make and its many compilers) the process with all of them is taken.
//     A descendant that is big by itself and another program (its name differs) is a
//     workload of its own: what a big supervisor started is not part of it. The shell of
//     a terminal takes nothing of what it started with it, however big it is.
//  5. Everything below the thresholds is small: counted, not reported, and its
//     memory is in Snapshot.Unmanaged.
//
// A cgroup that somebody named (Options.Named) is one workload whatever its size, but for those of 1.
// A registered process is a workload "pid:N" whatever its size; its leaf is treated
// as in 2.
//
//  6. Processes of one leaf and one user that have most of their memory together are
//     one workload, that of the one with the most, from the look on after they were read.
//
// Kernel threads, PID 1, /init.scope, this process and other processes
// of its executable and user are no workloads.
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
// quiet, its CPU clock, and its stat if that has moved; per thread of a busy multi-threaded process, its stat. The dear
// file is numa_maps: the kernel walks the page tables under the mmap lock to write it. First readings, the largest
// processes first, and later ones have budgets of time (firstShare, mapsShare). docs/design/observe.md has the figures.
//
// # What hangs
//
// The process holds its mmap lock for as long as it likes, so numa_maps, smaps_rollup and
// maps are read beside the look (proc.Calls), which goes on without what is late. What is
// not back after two seconds is told in Problems and Observation.Unanswered. Should
// anything else hang, Look returns an error when its time is over.
//
// Not in here: decisions, and anything that changes the host.
package observe
