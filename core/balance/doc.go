// Package balance decides which running workloads change their home, and says
// why the others do not.
//
// core/place finds a first home and keeps it for as long as it holds; this
// package alone gives up a home that holds, when that pays. Tick is one round of
// both: arrange.Arrange, then what the load asks for, then arrange.Arrange again
// on the changed homes, so that one piece of code makes all steps.
//
// Words: a look is what one tick saw; the window is the looks that must agree
// before anything is done; a trigger is what is wrong, with its numbers; a
// candidate is one change of homes; its gain and its cost are weighed in the
// same unit, nanoseconds of thread time lost to memory accesses or to waiting
// for a CPU.
//
// One decision:
//
//  1. Model (model.go). What is lost per second, as homes are: accesses × their
//     latency under the traffic, CPUs that are waited for, memory that is short.
//     Moves under way count as done.
//  2. Triggers (trigger.go). Nothing is looked for unless every look of the
//     window shows the same trouble.
//  3. Candidates (candidate.go): moves, swaps, widening, narrowing, and memory
//     to the CPUs. Those that rules forbid are kept with the rule.
//  4. Weighing (weigh.go). Saved per second × horizon must be more than twice
//     the cost.
//  5. Choice (decide.go). Of what pays, the less important moves first, then the
//     larger gain; the ledger of core/place must hold it. One choice a tick.
//
// Engine decides tick after tick. It keeps facts about each workload as long as the
// workload, its placement and the machine stay the same (recall.go).
//
// Not in here: the clock (times are values), steps, and first homes.
//
// Invariant: An Engine decides what Tick decides, to the last bit, whatever it remembers (TestProperties, TestRecall).
package balance
