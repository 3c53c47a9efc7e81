// Package run is the commands that start work where it belongs: run, and numactl, taskset,
// migratepages and numastat in the words of those programs.
//
// Not in here: system calls; cli.Env has them.
package run
