// Package differ makes steps and restores of the difference between what concerns desire and what the journal has.
//
//	desired − journal − seen  ──► steps of the plan, or at once between two scans
//	journal − desired         ──► restored, once, after a wait that grows when it fails
//
// It names no concern and no kind of workload: package control hands it the concerns in their order. It carries out
// nothing: package work does.
//
// Invariant: A setting that a concern owns, that the journal has and that it no longer desires is restored, and one
// that it desires or leaves is not (TestUndesiredIsRestored).
//
// Invariant: A desire that stands leads to no step (TestDue).
//
// Invariant: In observe mode nothing is begun and nothing is restored (TestUndesiredIsRestored).
package differ
