// Package pressure wakes the daemon when important work waits for a CPU, so that batch work gives way before the
// next scan is due. It is a source of the daemon without workloads: it has only Wake.
//
// A trigger is a request to the kernel's pressure stall information (Documentation/accounting/psi.rst): "wake me
// when some task of this cgroup waited for a CPU for 25 ms within 500 ms". 500 ms is the shortest window that
// kernels before 6.5 accept. The kernel checks a trigger every tenth of its window, so the wake-up comes 50 ms after
// the waiting began at the earliest. Since Linux 6.5 such a window needs CAP_SYS_RESOURCE.
//
// A second wake-up follows 200 ms later: the first scan has the use of the CPUs since the scan before, the second one
// that since the load rose.
//
// The scans that follow decide as every other scan does; nothing is decided here. Until then the kernel's own
// scheduler lets important work go first (cpu.idle, or sched_ext).
//
// Not in here: which cgroups have a trigger. That is Attention.Watched, the important work next to batch work.
//
// Invariant: a trigger stands only while important work runs next to batch work, and share.max_wait is not 0
// (TestTriggersFollowAttention). At most 64 stand at a time (TestMostTriggers). cmd/homenode has the source in
// enforce mode only.
//
// Invariant: the daemon is woken twice in 500 ms at most, however many triggers fire; the 500 ms grow to 2 s
// where they follow each other (TestWakesTwice).
package pressure
