// Package place decides where workloads go on one host.
//
// Place finds a home for one workload. Repack finds the fewest moves that make
// room for one more, Restore those that bring running ones nearer to their
// memory. All return the report that says why.
//
// Three parts, each on the one before:
//
//   - Ledger (ledger*.go) keeps the books: what is placed on which node and CPU
//     (core/place/cores), and so what is free. Requests only enter by it: Place, Repack, Restore. Renew asks whether
//     a home still holds (renew.go); Fill reads in all that runs (filling.go).
//   - search (search*.go) finds the node sets for one want: a request in the ledger's
//     terms, with how much of it each node can take (want.go) and how well it would
//     lie (score.go). What one node holds of it is a share, a node set with shares a
//     candidate. report*.go and nearest.go put the search into words.
//   - repack (repack*.go, reorder.go, restore.go) tries moves on a copy of the ledger.
//
// One decision:
//
//  1. Room. Of each node: vCPUs that fit (want.go: by class and SMT policy) and
//     memory that fits. The ledger keeps the sums, so this reads a few numbers a node.
//  2. Single nodes. Where the whole workload fits one node, the best such node is the
//     answer: nothing beats having everything in one place (search.go, staysWhole).
//  3. Sets. Otherwise a greedy division around each node gives first answers, and
//     branch and bound over node sets the best (search_bound.go); hosts of more than 16
//     nodes get a beam search instead.
//  4. Weighing (score.go). The unit of every term is one vCPU whose accesses all
//     cost one local access more, so terms can be added.
//  5. Does it pay? A new dedicated workload that fits only in parts too far apart is
//     refused: it would hold CPUs that serve another better (place.go, ceiling).
//  6. CPUs (core/place/cores). Only now single CPUs: those that it has already, fast cores, whole cores, few
//     caches (caches.go weighs these).
//
// Why uneven splits: when every vCPU touches all memory alike, the mean cost of an
// access is least with the memory on one node and as many vCPUs there as fit. An
// even split is the worst of all splits.
//
// Not in here: choosing single CPUs (core/place/cores), how much work wants (core/place/demand), how near it should be
// to its links (core/place/nearness), reading the machine, the steps that lead home (core/place/arrange), applying
// them, and the clock.
//
// Invariant: Shared work that fits on one node gets one node. It is split for memory, for more vCPUs than any node
// has CPUs, or for measured waiting; never because of the bookings of others (TestWhatFitsANodeIsNotSplit).
//
// Invariant: A ledger that Fill has filled is the one that has the same placements committed, and what it keeps as
// it was is what Renew keeps (TestFillingIsCommit).
package place
