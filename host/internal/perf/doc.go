// Package perf opens hardware counters (perf_event_open(2)): pairs of events that
// tell local from remote reads of memory, for the tasks of one cgroup, and single
// events of memory controllers. It knows which events which processor has
// (table.go) and how to read what sysfs says of a PMU (pmu.go).
//
// Not in here: which workloads are counted, and what a count means for them.
package perf
