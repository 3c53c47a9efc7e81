// Package daemon carries out the decisions of core/control. One goroutine owns the state:
// scans, surveys and effects run outside it and return as inputs, requests arrive in
// between, and after each input it publishes a new View. Entries that must be on disk first
// go through a writer with group commit.
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
