// Package view is what can be seen of control between two inputs: homes, settings, work under way, and the answers to
// what-if questions. Sources get the Attention of a scan.
//
// A View shares what is replaced and never changed, and has copies of the rest, so that it stands when the State goes
// on. It changes nothing, and books nothing.
//
// Invariant: A View or an Attention that a reader holds never changes (sameViews, at the end of every test that drives
// the fake of control: TestAnythingInAnyOrder).
package view
