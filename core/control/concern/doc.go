// Package concern is the seam for what homenode decides about a host.
//
// A Concern returns the settings that should stand: each is a Desire, with the step that makes it
// so and the reason. It returns no steps to restore anything. One differ, in core/control, makes
// steps of the difference:
//
//	desired − journal − seen = what is set
//	journal − desired        = what is restored
//
// Undo, a hold and "left alone" are masks over the desires: a concern desires nothing for such a workload.
//
// A concern is pure. Its memory is in exported fields, so that a checkpoint has them. It reads
// the host in a Scene and asks the Loop for everything else: history, disk, effects.
package concern
