// Package isolate is the concern for dedicated work that wants its CPUs undisturbed ("isolated"). The kernel
// moves elsewhere at run time:
//
//   - other tasks and the load balancer: the cgroup becomes a partition, cpuset.cpus.partition=isolated. It is a
//     remote one, with its CPUs in cpuset.cpus.exclusive of itself and of the cgroups above it (Linux 6.7,
//     Documentation/admin-guide/cgroup-v2.rst), so that those need not be partitions. Two scans: the partition
//     follows when the exclusive CPUs of all cgroups above stand.
//   - interrupts that can be moved, and those that are yet to come
//   - unbound workqueues
//   - deep idle states, by the CPU's bound on their exit latency, and low frequencies
//
// Timers go with the work that sets them. The tick itself stops on an idle CPU; on a busy one only where the kernel
// was started with nohz_full=, which no setting replaces.
//
// Settings of one CPU belong to the workload, and its undo restores them. Those that several isolated
// workloads share (ID) are restored when the last has gone.
//
// Not in here: which CPUs (core/place); interrupts of NICs and drives where the configuration has homenode place
// them (concern/interrupts, which keeps off all dedicated CPUs).
package isolate
