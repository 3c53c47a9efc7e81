// Package interrupts is the concern for the interrupts and queues of devices: they go to CPUs of the
// node of their device, and not to CPUs that dedicated work has.
//
// It restores nothing by itself: what it has set stays until undo, also where the configuration no
// longer lets it set more.
package interrupts
