// Package irq reads the interrupts and queues of PCI devices and carries out steps
// on them: where an interrupt is delivered (/proc/irq/N/smp_affinity_list), which
// CPUs work off a receive queue (rps_cpus) and send by a transmit queue (xps_cpus).
//
// Facts of the kernel that shape it:
//
//   - Interrupts whose spread the kernel manages (most of NVMe) refuse every write,
//     with EPERM or EIO (kernel/irq/proc.c, write_irq_affinity): plan.FixedError. Nothing
//     but the try tells them from others.
//   - The number of an interrupt is given to another device once it is free. So a
//     setting is named by PCI function and number, and a number that is no longer the
//     function's is gone.
//   - Drivers set affinities anew when they are loaded, when CPUs come and go, or when
//     the number of queues changes; the daemon then finds the interrupt away and
//     places it again.
//   - xps_cpus of a device with one transmit queue cannot be read (ENOENT).
//
// A step with another result than asked is restored before the error returns.
//
// Words: the root is where sys/ and proc/ lie; the path of a setting is "PCI/N" or
// "PCI/DEV/rx-N".
//
// Not in here: choices (core/irq) and the journal.
package irq
