// Package prepare carries out steps on the host itself: AllowedCPUs of systemd's
// slices and scopes, interrupts of any kind, and a few files of the kernel.
//
// Facts that shape it:
//
//   - systemd writes cpuset.cpus of its units itself, and again when units change: who
//     writes the file behind its back loses. So the property is set, for this boot
//     only (SetUnitProperties with runtime): the journal holds for one boot as well.
//   - systemd answers before it has written the cgroup, and says nothing when the
//     kernel lacks the cpuset controller: the file is read until it follows.
//   - An interrupt's number is given to another device once it is free, so that a
//     setting is named by number and handler.
//   - What the kernel keeps where it is (timers, managed queues) refuses with EPERM or
//     EIO: plan.ErrFixed.
//   - The kernel takes fewer huge pages than asked when it finds no more in one piece,
//     and says so only in what is read back.
//
// A step with another result than asked is restored before the error returns.
//
// Not in here: choices (core/hostprep), the journal, cgroups without systemd
// (host/cgroup), processes (host/process), queues of NICs and drives (host/irq).
package prepare
