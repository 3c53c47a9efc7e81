// Package swap is the concern that keeps the memory of dedicated work out of swap, where the
// operator wants that: memory.swap.max of its cgroup is 0. A page that comes back from swap is
// milliseconds away and may come back to another node.
//
// It is off by default: work that may not swap is killed when memory is short.
package swap
