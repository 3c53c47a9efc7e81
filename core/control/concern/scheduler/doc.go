// Package scheduler is the concern for the sched_ext scheduler of batch work: whether it is in the
// kernel, in which version, and which threads it has. It decides between scans, when the scheduler has
// answered.
package scheduler
