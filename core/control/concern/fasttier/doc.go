// Package fasttier is the concern that divides the fast memory of a host with memory tiers: the share of
// a workload follows its importance and its use. It acts where the kernel demotes, by the kernel's own means:
//
//   - memory.low of important work is the memory that it uses, so that the kernel demotes others first. With
//     protect: min it is memory.min, which the kernel never breaks.
//   - memory.reclaim of batch work makes room in that work's home, paced, before the kernel must: where a node runs
//     short, the kernel demotes protected pages, too.
//   - Pages of important work that lie in slower memory move up into that room, unless the kernel promotes
//     (kernel.numa_balancing=2): then it does that.
//
// Evidence of use is what the kernel has marked as accessed (workload.Observation.Used). The kernel clears these
// marks when it demotes a page, so that more marked memory than there is in fast memory has been accessed in slower
// memory since. Work without evidence gets nothing.
//
// Protection is bounded: all memory.low of a node together by a share of the node. The cgroups above a protected one
// bound it, and so they get the sum of the protection below.
//
// Invariant: No workload without evidence of use is protected or moved, and no node is protected beyond its bound
// (TestNoEvidence, TestBound).
package fasttier
