// Package load tells what kind of load a running workload is, and from that how important
// it seems where nobody has said so.
//
// The kernel counts how often each thread was put on a CPU, how long it ran and how long it
// waited for one (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat). From this:
//
//   - Latency: its busy threads sleep much of the time and run briefly: somebody waits for each answer.
//   - Interrupts: it is woken thousands of times for each second that it runs, or its vhost threads
//     have a good part of its time: it moves packets or blocks.
//   - Steady: its busy threads run, or wait to, nearly all of the time.
//
// A kind counts when it has been seen for holds; a kind that counts ends when another, or none, has been
// seen for ends, and its bounds are then wider by a third. So what lies near a bound does
// not change with every look.
//
// Not in here: what an importance does (core/place, core/balance).
package load
