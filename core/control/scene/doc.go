// Package scene says which workloads a host has, and what is wanted for each of them.
//
//	snapshot of a scan + claims of sources + admissions ──► subjects, rising by ID
//
// Words: an observation is a workload as a scan saw it. A claim is what a source knows of a workload: its
// observations are merged into one (Merge). An admission is a home that was given before the start. A
// helper is a process that other workloads are linked to (Linked, Follow). The ceiling is what one party may book on
// its own word (BoundClaims, MayBook). A subject is an observation with its spec, and why it is left
// alone (Decidable).
//
// One scan calls, in this order: Merge, Show, Unfollowed, BoundClaims, LocateHelpers, Recognise, Follow,
// WithClaims, KeepClear, Decidable.
//
// Nothing here writes the journal, the history or an effect, and nothing knows a task: what control
// is doing comes in as Work, the configuration as Settings. Methods return what control is to write.
package scene
