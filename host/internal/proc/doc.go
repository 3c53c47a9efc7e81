// Package proc parses the files of proc(5) and of pressure stall information that
// several host packages read, each in one place. The parsers take bytes, keep slices of
// them and allocate little: some run thousands of times a look. procfs makes strings
// and structs of every field of every file, and has no numa_maps.
//
// Not in here: finding and opening files, and what a figure means.
//
// Invariant: Calls that may never return are limited by owner, and half of the slots belong to the system
// (TestLostCalls, TestManyOwnersLoseCalls).
package proc
