// Package scx runs batch work under a scheduler of our own where the kernel has sched_ext
// (Documentation/scheduler/sched-ext.rst): batch tasks are SCHED_EXT, all other work stays
// in the fair class, which goes first by itself and keeps its cpu.max and cpu.weight. The
// scheduler decides when a CPU that has nothing else to do may run a batch task:
//
//   - never beside a CPU of the same core that runs online-strict work, nor within Hold after it,
//     and a batch task that runs there when online-strict work starts is put off the CPU;
//   - on no more CPUs of a node than its Budget;
//   - not on the last Idle CPUs of a node that nobody uses;
//   - only on the nodes of its cgroup;
//   - and, whatever speaks against it, once it has waited for Guard, in at most a fiftieth of a
//     CPU of each last-level cache. Without that the kernel's watchdog ends the scheduler;
//   - where online work leaves no CPU a moment the guard has no say: Relief gives what starves
//     back to the fair class.
//
// The kernel side is bpf/share.bpf.c and bpf/sub.bpf.c, GPL-2.0; its objects lie beside it, one for each range of
// kernels that name its functions alike, and are written by `make generate`.
//
// How it is used: Probe says whether the kernel can. Load has the kernel verify the programs and
// changes nothing. Attach begins and pins everything in bpffs, so that it outlives the daemon;
// Adopt finds it again. Set and SetTiers change what it goes by while it runs. Switch puts the
// threads of a cgroup under it, SwitchBack takes them away. Detach ends it: what is SCHED_EXT
// then runs in the fair class, where cpu.idle of its cgroup must stand already.
//
// Where another scheduler is loaded that takes others below it (Linux 7.3), Load makes one for that case
// (bpf/sub.bpf.c): Attach pins its maps, and AttachTo begins with one cgroup of batch work. That scheduler decides
// when a CPU may run batch work; this one keeps to the Budget, and away from online-strict work at each tick.
//
// A Scheduler is for one goroutine at a time.
//
// Words: a tier is that of core/workload; a cgroup without one has that of the nearest above it
// that has one, else normal. A threads function lists the threads that there are now.
//
// Not in here: when to load, how often to try again, which cgroups are batch work, how much of a
// node they may have, and the journal.
package scx
