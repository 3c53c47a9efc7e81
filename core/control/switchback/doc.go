// Package switchback switches the arms of the trial under way (`homenode trial`) and restores everything when it ends.
//
//	order of the program ──► arm ──► holds and undo (arm off) · settings of the kernel ──► settled
//	no renewal, an order of a person, a refusal of the kernel ──► end ──► everything restored
//
// The program of the trial reads the metrics and computes the result (core/trial). Here only the arms are switched: the
// daemon does that, so that every change is in the journal. What a trial has begun is done under holds of its own.
//
// It names no kind of workload, and it restores nothing itself: package work does.
//
// Invariant: A trial cannot outlive its program: an arm stands only while the program renews it, and then everything
// is restored (TestTrialIsLeft, TestOrdersEndTrials, TestTrials).
//
// Invariant: A trial does not outlive a restart of the machine: the next daemon sets no arm
// (control.TestTrialEndsWithTheBoot). A program that comes back goes on with it (TestProgramComesBack).
//
// Invariant: A hold of the user's is never lifted by a trial, and a value that another program has set is not restored
// (TestTrialKeepsHoldsOfUsers, TestTrialLeavesSamplingAlone).
//
// Invariant: An arm that the kernel refuses ends the trial: it would be measured as if it stood
// (TestTrialThatMayNotSwitch).
package switchback
