// Package hostile runs control.Next on a host where everything goes wrong that can: calls
// hang, the daemon is killed in the midst of anything, the machine restarts, the clock is
// set, the disk is full, others write the same settings, cgroups are made anew under their
// paths, PIDs are used again, names are hostile, and the engine panics on a workload. Batch work
// is limited, made idle and frozen by sharing and has a part of the caches, on kernels that lack what that takes too.
// CPUs and memory go offline, sources flap and claim what others claim, steps are done in part, one owner has many
// UIDs, and a process that holds its own mmap lock blocks every write of cpusets (upset_test.go).
//
// All of it follows from a seed. After every event it is checked that no CPU of dedicated
// work is held twice, that whatever homenode changed and still stands has its original
// value on disk, that nothing was changed that others had set, that one owner holds at most
// half of the host, and that the state is bounded; while writes are blocked, that every
// request is answered; now and then, in a calm, that undo restores everything.
//
// The host is a model: settings with the value that they would have without homenode.
// The daemon's part (the disk before the effects, results in any order) is played here as
// package daemon does it.
//
// The product has no use for any of this: the package is tests alone.
//
// Invariant: Whatever hangs, is killed or is written by other programs, homenode restores every setting and
// overwrites no value of another program (TestHostile).
package hostile
