// Package daemon carries out what core/control decides. One goroutine owns the state:
// scans, surveys and effects run beside it and come back as inputs, requests come in
// between, and after each input a new View is published whole. What must be on disk first
// goes through a writer, which puts together what has gathered (group commit).
//
// Not in here: decisions, kinds of workload, system calls, files of the kernel.
package daemon
