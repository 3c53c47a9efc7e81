// Package work has what is done on a host beside the loop: effects, how they end, and when what
// failed is tried again. It names no kind of workload and no concern.
package work
