// Package cores keeps which CPUs of a host dedicated work holds, and chooses CPUs for more.
//
// Books has the CPUs of a host by core, last-level cache and node, and the sums of free ones. Dedicated work gets one
// free CPU for each vCPU. Shared and batch work floats over the remaining CPUs; where the policy partitions the host
// (plan.Policy), shared work floats over the CPUs beyond the partition.
//
//   - new.go lays out the CPUs of a host.
//   - books.go holds CPUs and releases them, and finds the CPUs that work without CPUs of its own floats over.
//   - room.go counts the vCPUs that a node holds, by SMT policy.
//   - choose.go chooses a CPU for each vCPU: whole cores first, from few caches; fast.go chooses between fast and slow
//     cores.
//   - caches.go divides work over the last-level caches of a node.
//
// Invariant: The sums of a node are those of a count, in whatever order CPUs are held and released
// (TestHoldKeepsTheSums).
//
// Invariant: As many vCPUs as Holds reports get a free CPU each. Under the SMT policies isolate and require they get
// whole cores (TestChooseTakesWhatHolds).
//
// Not in here: memory, the weights that decide between nodes and between caches, and which work is where (core/place).
package cores
