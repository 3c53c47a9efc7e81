// Package llc decides in which last-level caches of its node shared work is kept.
//
// A move between caches moves no memory, so it is decided at each scan. It may only help where no
// CPU time is lost: work is widened to all of its node at once when it waits for CPUs that idle
// elsewhere on the node, and is kept in few caches again only after it was calm for a while, longer
// each time. Work that is widened often stays wide.
//
// What it decides becomes part of the homes (concern.Desired.Caches): place keeps such a home until
// the next decision, and chooses the caches of new work itself (place.Ledger).
//
// A cache has room for work while its CPUs suffice for all threads that want to run there in nineteen moments of twenty
// (demand.Load). Work that runs already is measured with all of its node first, so that its usual waits are known. Work
// that belongs together is kept together (mates.go).
//
// Invariant: No workload is kept in caches whose CPUs it fills with more threads than these are, or where it waits,
// while other CPUs of its node idle (TestWidens; sim/hostile, checkCaches).
package llc
