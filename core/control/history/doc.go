// Package history writes the lines of history: what a scan shows that the one before did not, each line once, with its
// number and the owner that it counts for.
//
// It decides nothing about the host. What repeats at every scan is written when its text changes (Once); a node that
// is short now and then is reported once in a while (Swing).
//
// Invariant: That a home is kept is no news, nor is a home that was reported when it was asked for
// (TestDecisionsAreTold).
//
// Invariant: Demand that swings about what a node has is no line per scan (TestSwingIsToldOnceInAWhile).
package history
