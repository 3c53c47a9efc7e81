// Package share decides how many CPUs of each NUMA node batch work may use now, without slowing
// online work down.
//
// Words: the pool of a node is its CPUs without dedicated work and without the host's CPUs. Batch
// work gets whole cores of the pool, so that online work can avoid the SMT siblings of batch work.
// CPU sets cannot keep online work off these cores; only a scheduler can.
//
// At every scan, for each node:
//
//	allowance = pool × target − online use − system use
//	room      = pool − online use − system use − CPUs kept idle
//
// The allowance is met on average, as Koordinator's CPU suppress does. The room is an upper bound
// at each scan, as in PerfIso (USENIX ATC 2018, "blind isolation"): a service that wakes up finds
// an idle CPU.
//
// Less, at once: when the allowance falls by more than its usual variation (look). Smaller changes
// are followed on average.
//
// More, slowly: after a while with room, at most a tenth of the pool per scan. The direction turns
// from less to more once a minute on average, so that nothing swings, and less often while
// important work waits each time (NodeState.Hold). A small addition waits a minute for each earlier
// turn; a tenth of the pool or more, as after a spike of online work, may be one turn early.
//
// The budget is met by whole cores (cover). Where a core is a large part of a node, batch work gets
// the cores that the budget needs, and a limit keeps all of it within the budget (level): cgroups
// that want more than their part get the same limit, as the kernel divides CPU time among cgroups of
// one weight; the others get none. A limit belongs to a cgroup, not to a node, so the kernel decides
// where work uses it: the host meets its target, and each node to about a core.
//
// The minimum is a core, of which batch work may keep a fiftieth of the pool busy. While important
// work waits for a CPU, batch work loses cores. At the minimum, batch workloads are frozen one by
// one, in the order of Squeeze, and thawed in the reverse order. No workload is ever killed.
//
// The package has no figures other than its input, and writes nothing: core/control makes the
// steps. Outcome also has the input of a scheduler (sched_ext): the budget of each node and the CPUs
// to keep idle.
package share
