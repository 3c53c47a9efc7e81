// Package sim is a simulator of hosts and workloads. It drives control.Next, which
// decides for the daemon, and runs simple reference policies on the same machine for
// comparison. Same options and same seed give the same result, byte for byte. A House
// is such a machine that goes by a clock, for a real daemon to look after.
//
// Words: a machine is a simulated host; a job is a workload on it, with its
// threads and its memory by node; an event is an arrival, a departure or a
// change of phase; a manager is what decides where jobs go (the daemon, or a
// reference policy).
//
// Time is simulated. Events, page moves and ticks happen at their time and in a
// fixed order; a page move is a coroutine that gives control back while it
// waits for its pace. Once every period the machine lets threads drift, finds out
// what accesses cost and adds it to the score; docs/design/simulator.md has the formulas
// and says where the constants come from.
//
// What is checked while it runs: plan.Check on every ledger, that a setting is
// journalled before it changes, that no memory is made or lost, that the ledger
// holds nobody who is gone; and at the end, when every job has departed, that
// the ledger is empty. What breaks a rule is a Failure with the seed.
//
// Not in here: decisions of homenode (core), and the real machine (host).
package sim
