//go:build linux

package main

// mark(0) makes the counting plugin begin to count, another tag makes it write out under that
// tag what it counted, and end. Without the plugin it does nothing. The walkers must stand still.
func mark(tag uint32)

// markFrom and markTo name memory for the plugin to count, by its addresses in units of 2 MiB:
// the first that is named is slot 0, the next slot 1.
func markFrom(start uint32)
func markTo(end uint32)

// markHere tells the plugin that the thread runs on this CPU, which in virtual time QEMU does not.
func markHere(cpu uint32)
