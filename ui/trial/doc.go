// Package trial runs a switchback experiment (`homenode trial`): it orders the arms from the daemon,
// reads the metrics, and keeps what was read in a folder, so that a trial that was interrupted goes on.
//
// Whoever runs it runs the commands of metrics: they have the rights of that user, and the daemon never
// sees them. The daemon restores everything when the trial is not renewed (core/control).
//
// Not in here: arithmetic (core/trial), flags (ui/cli), pages (ui/paper).
package trial
