// Package probe measures a machine: idle latency, bandwidth, latency under load,
// latency by working set, core to core, and the latency of single pages.
//
// Method. Memory of each node is mapped, bound (mbind) before it is first
// touched, touched from the node's own CPUs, and then looked at: move_pages
// tells where it lies and smaps whether it is huge pages. A cell whose memory
// lies elsewhere fails; it is never reported. Latency samples are 20,000
// dependent loads over lines that are not read twice (package kernel), taken by
// one thread that is moved from CPU to CPU, in the random order of
// measure.Collect. A sample counts only if the kernel did not take the CPU away
// (ru_nivcsw), the thread ran all the time (CPU time within 0.5 % of the clock;
// up to 5 % that interrupts alone took are taken off) and was on the same CPU
// before and after. While samples are being preempted they are taken after a
// short sleep, which earns a fresh turn, and made shorter.
//
// Safety: normal priority unless asked; no SCHED_FIFO, which starves the very
// threads that would end a measurement; at most a quarter of a node's free
// memory and half of what the cgroup has left; refuses a busy machine unless
// told; stops at the end of its context and keeps what it has.
//
// Not in here: which cells (measure.Plan), statistics, verdicts.
package probe
