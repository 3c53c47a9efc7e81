// Package inside divides a workload inside its home, where that has several nodes.
//
// Parts are the nodes of a home, with the CPUs and the share of the workload of each. Divide finds the
// part that each thread, or vCPU, belongs to (divide.go). Workers finds the processes that work
// on the GPUs of one node, and the home that has each of them on the node of its GPUs (workers.go).
//
// Invariant: A thread that has CPUs of its own is left as it is, and of what is divided already at most one thread goes
// elsewhere at a time (TestDivideProperties, TestDivisibleProperties).
//
// Invariant: The processes that work on the GPUs of a node belong to the part of that node, whatever they use
// (TestOwnPartIsKept).
//
// Not in here: which nodes are a home (core/place); when threads are divided, and undoing it
// (core/control/concern/threads, core/control/concern/gpus).
package inside
