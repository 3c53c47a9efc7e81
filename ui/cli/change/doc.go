// Package change is the commands that change what the daemon does: daemon, config, share, move,
// undo and resume.
//
// Not in here: the commands that start work (run).
package change
