// Package share has the tests of batch work beside online work: what the daemon does with
// cgroups (share.*) and what the sched_ext scheduler does without a daemon (scx.*). Some
// tests read the kernel's own trace of switches (invariants.go), some count instructions in
// virtual time (virtual.go, toll.go, turns_amd64.go).
//
// scx_verifier.txt is the baseline of what the verifier takes for each BPF program.
//
// Only command guest imports this package.
package share
