// Package cli is what the commands share: Env, through which they reach everything, the exit
// statuses, the connection to the daemon, and how hosts and workloads are named, read and shown.
//
// The commands are in packages by the groups of `homenode help`: see, change, run, machine, vm
// and try. The package tree joins them.
//
// Exit status: 0 done, 1 the answer is "no" or a warning, 2 bad usage or bad input, 3 not
// permitted or not possible here.
//
// Not in here: decisions, and anything that touches the host; cmd/homenode hands in the functions
// that do, through Env.
package cli
