// Package daemon is the only loop: observe, decide, check, journal, apply,
// verify. It owns time, goroutines, configuration and the order of things; the
// host packages do what it says, and core decides.
//
// Not in here: system calls, files of the kernel, and what a placement should be.
package daemon
