// Package share decides how many CPUs of each NUMA node offline work may use now, so that
// online work does not feel it.
//
// Words: the pool of a node is its CPUs that no dedicated work and not the host holds. What
// offline work is given are whole cores of it, so that no SMT sibling of one runs online
// work while there is another CPU for that: the base layer cannot keep online work off, for
// only a scheduler can.
//
// In every round, for each node:
//
//	allowance = pool × target − online use − system use
//	room      = pool − online use − system use − CPUs kept idle
//
// The first is a wish and is met to half a core; the second bounds what is given, as PerfIso
// does (USENIX ATC 2018, "blind isolation"): a service that wakes finds an idle CPU. The
// allowance is that of Koordinator's CPU suppress. Less is given at once. More is given when
// there was room for it the whole of a while, at most a tenth of the pool in a round; the
// while doubles each time that what was given had to be taken back soon (State.Hold), so
// that nothing swings. One core is the least. Who is important and waits for a CPU all the
// same has cores taken back until it does not; when one core is left, offline workloads
// are frozen, one by one, in the order of Squeeze, and let go in the reverse order.
// Nothing is ever killed.
//
// The package holds no figure of a workload that it was not handed, and writes nothing:
// core/control makes steps of what it says. What a scheduler of its own (sched_ext) would
// be told is in Outcome too: the budget of each node and the CPUs to keep idle.
package share
