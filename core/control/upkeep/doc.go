// Package upkeep keeps the journal true to the host: it finds settings that read otherwise than homenode set them,
// entries of objects that no longer exist, and processes that inherited a setting.
//
//	after a scan ──► effects that read ──► results ──► entries marked gone, adopted, or given to another program
//
// It decides no setting and restores none. What is found of a setting of another program, package work takes up.
//
// Invariant: The journal entry of a process goes only when every process that inherited its affinity has its own
// entry (TestEntryOfTheDeadStaysWhileItIsInherited).
package upkeep
