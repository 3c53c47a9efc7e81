// Package daemon carries out what core/control decides. One goroutine owns the state:
// scans, surveys and effects run beside it and come back as inputs, requests come in
// between, and after each input a new View is published whole. What must be on disk first
// goes through a writer, which puts together what has gathered (group commit).
//
// Not in here: decisions, kinds of workload, system calls, files of the kernel.
//
// Invariant: One goroutine owns the state, and nothing in it waits. Scans, surveys, driver calls and the disk run
// outside the loop with a deadline; the loop gives up on a call that does not return, and leaves its workload alone
// for a while (TestImportsGoOneWay forbids sync here; TestCallsThatDoNotComeBack, TestScanThatDoesNotEnd).
//
// Invariant: The old value is on disk, fsynced, before a change. Undo treats the entry of an interrupted change like
// one that was applied (TestFullDiskChangesNothing).
//
// Invariant: In observe mode the daemon writes nothing outside its state folder by itself
// (TestObserveChangesNothingAndPredicts).
package daemon
