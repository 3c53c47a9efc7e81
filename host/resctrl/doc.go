// Package resctrl gives batch work a part of the last-level caches and of memory bandwidth, where
// the kernel has resctrl mounted (Documentation/filesystems/resctrl.rst): one group, homenode-batch,
// with the threads of batch cgroups in it. It mounts nothing, and touches no group of others.
//
// Bandwidth has the unit that the machine counts in: percent, MiB/s, or 1/8 GB/s. A step brings the
// measured bandwidth that a percentage is of; nothing is measured here.
package resctrl
