// Package kernel has the tests of what homenode expects of the kernel: affinity, cpusets,
// page moves, memory policies, NUMA balancing, huge pages, topology files and the switch of
// cache-aware scheduling (kernel.*).
//
// No homenode runs in these tests. Only command guest imports this package.
package kernel
