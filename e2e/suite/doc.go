// Package suite is what both sides of the guest rig must agree on: the shapes
// of the guests, the tests each shape runs, and the lines a guest writes.
//
// The host holds this list too, so that a test that never reports counts as
// failed: a guest that dies half way can not pass by silence.
//
// Words: a shape is one guest machine (nodes, CPUs, distances); a mark is a
// moment at which the access counts are written out and cleared; a slot is a
// walker's number and gives its buffer's address.
//
// No test code here, and nothing that needs a guest.
package suite
