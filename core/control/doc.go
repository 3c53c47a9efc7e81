// Package control decides the reaction to every input: Next takes homenode's state of a host and
// one input, and returns the new state and the effects. The daemon only carries them out; the
// simulator, replay and the tests with random sequences use the same function.
//
//	scan, survey, request, result of an effect ──► Next ──► effects, replies, events, a batch to save
//
// One workload has one task at a time: steps of its plan that are under way. A step that
// changes a setting is two effects: EffectRead tells how the setting is now, which goes into
// the journal; EffectApply changes it once the journal is on disk. Undo and requests to
// change something go the same way.
//
// It asks workload.Caps what can be done with a workload and never of what kind it is.
//
// This package conducts. Its packages:
//
//	settings    the configuration as far as decisions go by it
//	scene       the workloads of the host, and the wishes for each
//	homes       admissions, the ledger, requests for a home
//	concern     the desired settings; concerns.go lists the concerns
//	differ      steps and restores of the difference between desires and journal
//	journal     the original value of everything changed; settings of other programs
//	work        tasks, effects, retries, undo
//	upkeep      settings that read otherwise, entries of what is gone, inherited settings
//	switchback  the arms of the trial under way
//	history     lines of history, each once
//	view        what can be seen between two inputs; what-if
//	replay      comparison of an output with a recorded one
//
// No I/O, clock, goroutine or randomness belongs here: time comes with the Input.
//
// Invariant: Single concerns are named in concerns.go, view/concerns.go (what a View shows of them and a scan reads for
// them) and package settings (their configuration), and, as arms of a trial, in switchback; work.go has the names of
// their effects. No other file of core/control imports one (TestWhoKnowsConcerns). State has at most 25 fields
// (TestShape).
//
// Invariant: A View or an Output that a reader holds never changes (sameViews, at the end of every test that drives the
// fake: TestAnythingInAnyOrder).
//
// Invariant: A value that another program set is reported, left alone and not undone, even if it equals the value
// that homenode wants of a kind that it would change later (TestForeignValueIsLeftAlone,
// TestUndoLeavesAForeignValue). An entry of the journal knows its cgroup by the inode
// (TestCgroupMadeAnewBeforeAStep).
//
// Invariant: No kind of workload is named. A workload has Caps, and a Source that knows it (TestLoopKnowsNoRuntime).
//
// Invariant: Every input can be replayed: the flight recorder keeps inputs and results, and a checkpoint holds the
// whole State (TestReplayIsExact, TestCheckpointOfACheckpoint, TestAnythingInAnyOrder).
//
// Invariant: A party cannot take more than its ceiling by its own word: a name, a size or a request counts only
// within it, unless the operator granted more (TestCeilingOfRequests, TestClaimsHaveACeiling, TestOneOwnerHoldsHalf).
//
// Invariant: The source of a claimed workload is right about it; the ledger is right only about a change that
// homenode has in progress. If two sources claim one cgroup, the first keeps it (TestTwoSourcesClaimOneCgroup).
//
// Invariant: One cgroup or process is changed, checked and restored under one ID at a time (TestUnderAnotherID).
//
// Invariant: Shells of terminals and young processes get no home because of their size: every command typed in them
// would inherit it. The user can still name them (TestShellsOfTerminalsAreLeftAlone).
//
// Invariant: In observe mode homenode changes nothing by itself. It carries out and journals explicit orders (host
// prepare, vm limit, undo); orders that only the loop can carry out are refused
// (TestObserveModeChangesNothingAndPredicts, TestChangeInObserveMode).
package control
