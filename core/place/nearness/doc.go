// Package nearness finds how near work should be to the devices, helpers and partners that it is linked to.
//
// Learned turns a link that was found into a wish to be near its other end (learned.go); Given does so for the GPUs
// that a runtime gives. Follow decides for a helper, as a storage daemon or a software switch, whether it goes to its
// clients or they come to it (follow.go).
//
// Invariant: A helper that must stay never follows, and one that follows goes to nodes that all its clients are on
// (TestFollowProperties).
//
// Not in here: finding links (host/links, host/peers), and the bounds on how far all of them together pull
// (core/place, near.go).
package nearness
