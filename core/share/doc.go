// Package share decides how many CPUs of each NUMA node batch work may use now, so that
// online work does not feel it.
//
// Words: the pool of a node is its CPUs that no dedicated work and not the host holds. What
// batch work is given are whole cores of it, so that no SMT sibling of one runs online
// work while there is another CPU for that: the base layer cannot keep online work off, for
// only a scheduler can.
//
// In every round, for each node:
//
//	allowance = pool × target − online use − system use
//	room      = pool − online use − system use − CPUs kept idle
//
// The first is a wish and is met on average; the second bounds what is given in each look, as
// PerfIso does (USENIX ATC 2018, "blind isolation"): a service that wakes finds an idle CPU. The
// allowance is that of Koordinator's CPU suppress.
//
// Less is given at once where online work has changed, that is by more than the allowance goes
// up and down by itself (look); what is smaller is followed on average. More is given when there
// was room for it the whole of a while, at most a tenth of the pool in a round. From less it
// turns to more once a minute on average, so that nothing swings, and ever more seldom where
// important work waits each time (NodeState.Hold). A little more must wait until a minute has
// passed for each turn before; a tenth of the pool or more, as after a spike of online work, may
// be one turn ahead of that.
//
// The budget is met by whole cores (cover). Where a core is a large part of a node, batch work
// has the cores that the budget needs and all of it together is limited to the budget (level):
// each cgroup that wants more than its part has the same limit, as the kernel shares among
// cgroups of one weight, and what uses less has none. A limit is of a cgroup and not of a node,
// so that the kernel decides where work that may run on several nodes uses it: the host meets
// its target, a node to about a core.
//
// A core is the least that is given, of which batch work may keep a fiftieth of the pool busy,
// so that it gets on. Who is important and waits for a CPU all the same has cores taken back
// until it does not; when no more than the least is left, batch workloads are frozen, one by
// one, in the order of Squeeze, and let go in the reverse order.
// Nothing is ever killed.
//
// The package holds no figure of a workload that it was not handed, and writes nothing:
// core/control makes steps of what it says. What a scheduler of its own (sched_ext) would
// be told is in Outcome too: the budget of each node and the CPUs to keep idle.
package share
