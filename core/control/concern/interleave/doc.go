// Package interleave is the concern that gives the kernel the weights of weighted interleave (Linux 6.9), from the
// measured bandwidth of each node, or the firmware's. Work that asks for it (`homenode run --policy bandwidth`) then
// has its pages on the nodes in proportion to their bandwidth.
//
// It is off by default: the weights are the whole host's, and another program may rely on them.
package interleave
