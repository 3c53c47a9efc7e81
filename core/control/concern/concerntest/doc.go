// Package concerntest has a scene, a loop and a notation of desires for the tests of concerns.
//
// Not in here: anything that is not a test's.
package concerntest
