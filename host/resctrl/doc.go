// Package resctrl gives batch work a part of the last-level caches and of memory bandwidth, where
// the kernel has resctrl mounted (Documentation/filesystems/resctrl.rst): one group, homenode-batch,
// with the threads of batch cgroups in it. It mounts nothing, and touches no group of others.
package resctrl
