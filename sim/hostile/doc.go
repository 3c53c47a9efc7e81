// Package hostile runs control.Next on a host where everything goes wrong that can: calls
// hang, the daemon is killed in the midst of anything, the machine restarts, the clock is
// set, the disk is full, others write the same settings, cgroups are made anew under their
// paths, PIDs are used again, names are hostile, and the engine panics on a workload. Offline work
// is limited, made idle and frozen by sharing and has a part of the caches, on kernels that lack what that takes too.
//
// All of it follows from a seed. After every event it is checked that no CPU of dedicated
// work is held twice, that whatever homenode changed and still stands has its original
// value on disk, that nothing was changed that others had set, and that the state is
// bounded; now and then, in a calm, that undo puts everything back.
//
// The host is a model: settings with the value that they would have without homenode.
// The daemon's part (the disk before the effects, results in any order) is played here as
// package daemon does it.
package hostile
