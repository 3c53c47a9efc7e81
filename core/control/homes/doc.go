// Package homes remembers which home each workload has, what is held for work that has not
// come, and why each home was chosen. It answers requests for a home, for another home, and
// what-if questions.
//
// # Words
//
// A placement is a workload with its home: nodes, CPUs and booked memory. An admission is a
// home that was given before a scan has seen the workload: to a process that is about to
// start, or held for a while for work that its source will show. An admission is exact when a
// person named the CPUs or the nodes. The ledger counts all that is booked; core/place finds
// room in it.
//
// # What is not here
//
// Homes writes nothing: no history, no replies, no effects. A method returns what is to be
// saved, logged and answered, and package control does that. Homes reads no clock and knows
// no scan: callers hand in what the newest scan has seen (Now).
//
// # Invariants
//
//   - Placements that a reader has never change: they are replaced (TestPlacementsStand).
//   - What was saved and what is kept are the same admissions (TestAdmittedIsWhatIsKept).
//   - One home more costs no copy of all homes and admissions (TestOneMoreCopiesNothing).
//   - No other work gets the CPUs of dedicated work before that has left them (TestNotLeft).
//   - No file depends on one that stands above it (TestFilesPointDown).
package homes
