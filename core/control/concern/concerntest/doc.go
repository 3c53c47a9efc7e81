// Package concerntest has what the tests of concerns need: a scene, the loop around it, and a notation for desires.
//
// Not in here: anything that is not a test's.
package concerntest
