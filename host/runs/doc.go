// Package runs keeps what `homenode run` has started and still lives: one small file for
// each command, in a folder of the user who started it. A run that finds no daemon looks here
// for what earlier ones took, undo for what to restore, and a daemon that starts later for
// what is there.
//
// What a file says counts only while the very process that it names lives (PID, start time
// and boot), and only in a folder that its owner alone can write: root's is believed by all,
// a user's own by that user, nobody else's by anyone.
//
// A Source is what a run without a daemon knows beside the machine; core/control decides with it where the run goes
// (control.PlaceBeside). A Journal is the user's own: what living runs have set, as journal entries. The daemon's
// undo restores them (daemon.Local.UndoKept), by the drivers of host/process and host/scope.
//
// Not in here: which CPUs anything gets, and how a setting is restored.
package runs
