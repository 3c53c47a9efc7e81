// Package workload describes the work on a host: its identity and class, its
// requirements (Spec) and its measurements (Observation).
//
// A workload is a guest, a container, a cgroup v2 leaf or a process tree that is
// placed as one. Specs come from people and orchestrators, observations from
// host/observe; both are plain values.
//
// Not in here: placements (package plan), and any reading of the machine.
//
// Invariant: A source may only weaken a workload on its author's word; stronger settings need a grant (TestGrants,
// TestLabelsAloneGiveNothing).
package workload
