// Package gpus is the concern that brings the memory of each worker of a process tree to the node of
// the worker's own GPU. The concern of threads keeps the worker's threads there, so that new memory
// is there by itself; what the worker had before is moved.
//
// It owns no setting: where pages lie is seen anew in each scan, and undo does not move them back.
// One move is desired at a time for each workload: the memory of all workers of one node.
package gpus
