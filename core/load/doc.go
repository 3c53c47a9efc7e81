// Package load recognises the kind of load of a running workload, and suggests an importance for
// workloads without one.
//
// The kernel counts how often each thread was put on a CPU, how long it ran and how long it
// waited for one (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat). From this:
//
//   - Latency: its busy threads sleep much of the time and run briefly, because a client waits for each answer.
//   - Interrupts: it wakes up thousands of times for each second that it runs, or its vhost threads
//     use a good part of its time, because it moves packets or blocks.
//   - Steady: its busy threads run, or wait for a CPU, nearly all of the time.
//
// A kind counts after holds. It ends after another kind, or none, for ends; its bounds are wider by a
// third meanwhile, so that a load near a bound does not change with every scan.
//
// Not in here: the effect of an importance (core/place, core/balance).
package load
