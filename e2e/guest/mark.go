//go:build linux

package main

import "github.com/homenode/homenode/e2e/marks"

// mark(0) makes the counting plugin begin to count; another tag makes it write out what it counted.
func mark(tag uint32) { marks.Write(tag) }

// markFrom and markTo name memory for the plugin to count, in units of 2 MiB.
func markFrom(start uint32) { marks.From(start) }
func markTo(end uint32)     { marks.To(end) }

// markHere tells the plugin that the thread runs on this CPU.
func markHere(cpu uint32) { marks.Here(cpu) }
