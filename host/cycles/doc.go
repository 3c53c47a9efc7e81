// Package cycles counts what the CPUs do for the host or for some cgroups: cycles, instructions,
// and cycles in which the CPU waits (perf_event_open(2)). It takes CAP_PERFMON, and a machine or
// guest with these counters.
//
// Not in here: counters of memory accesses (host/observe), and what a count means.
package cycles
