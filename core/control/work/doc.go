// Package work carries out what is left to do on a host, and undoes it.
//
//	steps of the plan ──► tasks ──► effects ──► results ──► journal, retries, the next step
//	undo              ──► restores ─────┘
//
// # Words
//
// A task is the steps of one workload that are under way, one at a time. An effect is one thing that is
// done beside the loop, and ends with a result. A step is read first: its old values go into the journal.
// Then it is applied. A transfer is a task with a page move; few run at a time (traffic). A workload is
// fresh when the newest scan saw what was last done to it. An undo restores entries of the journal; it
// lasts until each was tried.
//
// # What is not here
//
// Work decides nothing: steps come from the plan or from a request. It names no kind of step, no kind of
// workload and no concern: what a step does is a property of its kind (core/plan, kind.go). It reads no
// clock: At is the time of the newest input. What it needs of the rest of control it asks of the Loop.
//
// # Invariants
//
//   - A workload has one task at a time: a second one waits (TestChangeWaits).
//   - One cgroup or process is changed, checked and restored under one ID at a time (TestUnderAnotherID).
//   - An entry is written before its setting is changed, and only when it has changed (TestKilledAnywhere,
//     TestMarkWritesOnce).
//   - What is being restored is not changed (TestWhatIsBeingPutBack, TestOneRestoreAtATime,
//     TestRequestDuringARestore).
//   - A value of another program is not overwritten (TestSetByOthers).
//   - What fails waits longer each time, ten minutes at most (TestWaitIsBounded).
//   - Steps that a reader has never change: the plan gets new ones (TestViewStands, TestTodo).
//   - The cost of a result does not grow with the number of workloads (BenchmarkResults).
//   - No step kind is named (TestNamesNoKindOfStep), and files depend on those below them only, but for four
//     arrows with a reason (TestFilesPointDown).
package work
