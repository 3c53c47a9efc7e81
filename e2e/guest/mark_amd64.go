//go:build linux

package main

// mark makes the counting plugin write out what it counted since the last mark,
// under the given tag, and start again from zero. Without the plugin it does
// nothing. The walkers must stand still.
func mark(tag uint32)
