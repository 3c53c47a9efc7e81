// Package view draws what people read: tables, colour, a progress bar and the
// pictures of a machine, for the command line and for whatever else has a screen.
//
// Names of processes, cgroups, guests and devices are made by whoever owns them.
// PlainAll makes those of an answer printable, so that none moves a cursor, hides what
// follows or begins a line; Output is the net below that, for every byte of a command's
// output.
//
// Not in here: what is shown, and where it comes from.
//
// Invariant: A name reaches a terminal, a log or a page only as text on one line. Users choose the names of
// processes, cgroups and guests (TestPrintable, TestOutputLetsNoControlThrough).
package view
