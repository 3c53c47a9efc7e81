// Package threads is the concern for work that is wider than a node: each of its threads gets one of
// its nodes, and the kernel's NUMA balancing may bring its memory after it for a while. Threads get
// their nodes before the memory of the work moves, in the plan that gives it a home if they were read by then.
package threads
