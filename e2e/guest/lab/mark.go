//go:build linux

package lab

import "github.com/homenode/homenode/e2e/marks"

// Mark(0) makes the counting plugin begin to count; another tag makes it write out what it counted.
func Mark(tag uint32) { marks.Write(tag) }

// MarkFrom begins the memory for the plugin to count, in units of 2 MiB; MarkTo ends it.
func MarkFrom(start uint32) { marks.From(start) }

// MarkTo ends it.
func MarkTo(end uint32) { marks.To(end) }

// MarkHere tells the plugin that the thread runs on this CPU.
func MarkHere(cpu uint32) { marks.Here(cpu) }
