// Package control decides what follows from what: Next takes everything homenode
// remembers of a host and one thing that happened, and returns what it remembers then
// and what is to be done. The daemon only carries that out; the simulator, replay and
// the tests with random sequences drive the same function.
//
//	scan, survey, request, result of an effect ──► Next ──► effects, replies, events, a batch to save
//
// One workload has one task at a time: steps of its plan that are under way. A step that
// changes a setting is two effects: EffectRead tells how the setting is now, which goes into
// the journal; EffectApply changes it once the journal is on disk. Undo and requests to
// change something go the same way.
//
// It asks workload.Caps what can be done with a workload and never of what kind it is.
//
// No I/O, clock, goroutine or randomness belongs here: time comes with the Input.
package control
