// Package threads is the concern for work that is wider than a node: each of its threads gets one of
// its nodes, and the kernel's NUMA balancing may bring its memory after it for a while.
package threads
