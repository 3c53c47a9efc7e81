package suite

import "slices"

// turns are the tests that take turns, in four parts of about the same time: a test by its name, or all tests of
// a shape by the shape's. Tests of loss (observe, enforce, undo, kill, move) are in no part, and so run each time.
var turns = [][]string{
	{"n4-count", "homenode.host", "homenode.numactl"},
	{"virtual", "same", "n8", "homenode.locked", "homenode.load-shift"},
	{"n2-nic", "homenode.cpuset-locked", "homenode.pressure", "homenode.immovable", "homenode.shield", "share.bench"},
	{"scx.load", "scx.expel", "scx.bursts", "scx.guard", "scx.bounds", "scx.tasks", "scx.hotplug", "scx.limits",
		"scx.cost", "scx.below", "share.below"},
}

// Turn is the part that a number chooses, from 1 on.
func Turn(number int) int { return number%len(turns) + 1 }

// InTurn reports whether a test in a guest runs in the turn that a number chooses.
func InTurn(shape, test string, number int) bool {
	for i, part := range turns {
		if slices.Contains(part, shape) || slices.Contains(part, test) {
			return i+1 == Turn(number)
		}
	}
	return true
}

// NotInTurn names the guests and tests that have another turn than the one that a number chooses.
func NotInTurn(number int) (names []string) {
	for i, part := range turns {
		if i+1 != Turn(number) {
			names = append(names, part...)
		}
	}
	return names
}
