// Package scene says which workloads a host has, and what is wanted for each of them.
//
//	snapshot of a scan + claims of sources + admissions ──► subjects, rising by ID
//
// Words:
//   - An observation is a workload as a scan saw it.
//   - A claim is what a source knows of a workload. Its observations are merged into one (Merge).
//   - An admission is a home that was given before the start.
//   - A helper is a process that other workloads are linked to (Linked, Follow).
//   - The ceiling bounds what one party may book on its own word (BoundClaims, MayBook).
//   - A subject is an observation with its spec, and the reason to leave it alone (Decidable).
//
// One scan calls, in this order: Merge, Show, Unfollowed, BoundClaims, LocateHelpers, Recognise, Follow,
// WithClaims, KeepClear, Decidable.
//
// Nothing here writes the journal, the history or an effect, and nothing knows a task: what control
// is doing comes in as Work, the configuration as Settings. Methods return what control is to write.
//
// Invariants, each with its test:
//   - One observation is never in two workloads: TestClaimedOnce.
//   - What is merged counts once, and nothing of it is lost: TestJoined, TestTakePart.
//   - A subject is the same value for as long as nothing that it was made of changes: TestSubjectsStay.
//   - A workload that control has had trouble with gets its subject anew at each scan: TestSubjectsStay.
//   - On its own word one party holds half of the host at most, and all parties three quarters: TestCeiling.
//   - Maps that readers may have are replaced, never changed: TestReadersKeepTheirs.
//   - Files depend on files below them only: TestFilesPointDown.
package scene
