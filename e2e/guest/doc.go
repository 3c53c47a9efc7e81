// Command guest is the whole user space of a test guest: it is PID 1, and it
// runs the tests.
//
//	init                 as PID 1: set the machine up, run the tests named on
//	                     the kernel command line (shape=S tests=A,B), power off
//	init test NAME       one test, in a process of its own
//	init as-nobody CMD…  a command as an ordinary user
//	init as-service CMD… a command with the capabilities that the unit of systemd has
//	init orphan CMD…     a command as a child of PID 1
//	init toll …          what runs in a table of virtual time (share/toll.go)
//	init read-only-cgroups CMD…
//	                     a command that sees the cgroup tree read-only
//
// Every test is a process of its own, so that one that crashes or hangs takes
// nothing with it. After each, PID 1 kills whatever is left, takes the cgroups
// away and puts the machine's switches back, so that no test depends on another.
//
// In a guest with a disk (libvirt: runtimes/vm.go; a container runtime: runtimes/pod.go) it is PID 1 once command
// hypervisor hands over. There nothing is taken away but what a test left in its own
// process group: starting guests takes minutes, so they are there for the next test too,
// and every test makes sure of what it needs.
//
// What a test finds out it reads from /proc, /sys and system calls. Homenode's
// own answers are looked at only to compare them with that.
//
// This package has the subcommands (main.go) and the list of tables (tests.go). Package lab
// has what tests share. The tests lie by subject in the packages kernel, home, share,
// runtimes and count.
//
// A test is a function of *lab.T in the table of its package (its tests.go), under a name
// that package suite lists too.
package main
