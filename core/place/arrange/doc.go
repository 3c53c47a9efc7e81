// Package arrange finds what must change so that running workloads come to lie at home.
//
// Arrange reads what runs into a ledger (core/place), keeps the homes that still hold, finds homes for the rest, and
// makes the steps that lead there, with the reason of each. Arranger does it scan after scan.
//
//   - arrange.go goes through the workloads of one host: those left alone, those with a home, those without one.
//   - order.go has the order in which they choose.
//   - asbefore.go keeps work that stays as it is without a request: of thousands nearly all do.
//   - steps.go makes the steps of one workload: CPUs, pages, memory nodes.
//   - again.go remembers the newest plan, and only reads changed workloads.
//
// Invariant: A workload with its own memory policy never gets a narrower cpuset.mems: the kernel would rewrite the
// policy (mpol_rebind_policy, mm/mempolicy.c), and a wider set does not restore it. Its pages move instead
// (TestArrange).
//
// Invariant: CPUs that go offline take no CPUs from other dedicated work. Dedicated work keeps its online CPUs until
// it fits elsewhere completely, or until the CPUs are back (TestOfflineCPUsTakeNoOthers).
//
// Invariant: An Arranger plans what Arrange plans, whatever it remembers, and a plan that was given out never changes
// (TestArrangerIsArrange).
//
// Not in here: whether a home holds, and which one is best (core/place); giving up a home that holds (core/balance);
// carrying out the steps.
package arrange
