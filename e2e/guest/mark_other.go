//go:build linux && !amd64

package main

// mark has no NOPs to say it with here; the rig's guests are amd64.
func mark(tag uint32) { panic("access counting needs amd64") }

func markFrom(start uint32) { panic("access counting needs amd64") }
func markTo(end uint32)     { panic("access counting needs amd64") }

func markHere(cpu uint32) { panic("access counting needs amd64") }
