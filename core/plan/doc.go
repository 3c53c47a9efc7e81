// Package plan says what shall be: placements, the steps that lead there, and
// the report that says why.
//
// Deciders (place, balance, colo) return one Plan. Drivers apply its Steps
// without choices of their own. Check re-checks every plan whatever made it: in
// tests, in the simulator, and in the daemon before anything is applied.
//
// Words: a Placement is where a workload belongs; a Step is one reversible
// effect; a Decision is what was chosen for one workload and why; a Report is
// all decisions of one plan.
//
// Not in here: how a placement is found, and how a step is carried out.
//
// Invariant: A setting is homenode's only while it reads as homenode wrote it (Entry.Ours). A value that another
// program set later is theirs: reported, left alone, not undone (TestOurs).
package plan
