// Package journal holds what homenode has changed on a host and whose each setting is.
//
// An entry keeps the oldest known value of one setting, so that undo can restore it. A setting
// that another program has set since is in Theirs instead: no plan changes it until it has its
// original value again, or the user resumes its workload.
//
// **Invariant:** All and Group return slices that readers may keep: Put replaces them and never
// writes into them (TestReadersKeepTheirEntries).
//
// Nothing here decides: what should stand is the business of the concerns.
package journal
