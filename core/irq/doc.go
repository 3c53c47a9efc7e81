// Package irq says on which CPUs the interrupts and queues of NICs and NVMe drives
// belong: on the node of their device, away from dedicated work.
//
// Decide is a function from the devices as they are to steps and a report. Per
// node, the lanes of all its devices (a lane is a queue: its receive and transmit
// interrupts share it) are dealt out so that no CPU has more than its part, one
// per core before SMT siblings get any. A lane that already lies on one allowed CPU
// which has not more than its part stays there, so that a second run changes
// nothing. Interrupts that belong to no queue may go to all allowed CPUs.
//
// An NVMe drive with more queues than its node has CPUs has them for the CPUs of
// the whole machine: each completes where it was asked for, and stays as it is.
//
// Where a NIC has fewer receive queues than its node has CPUs, the work of each
// is spread over all of them (RPS); where it has fewer transmit queues (but more
// than one), the CPUs share the queues in equal parts (XPS). See the kernel's
// Documentation/networking/scaling.rst.
//
// Allowed CPUs are those of the device's node that are online and that nobody has
// for himself.
//
// Not in here: reading and writing (host/irq), when to act (daemon).
package irq
