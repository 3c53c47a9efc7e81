// Package doctor says what a machine truly is: its NUMA nodes exposed, hidden
// by the kernel or by the firmware, interleaved below them, wrongly described,
// unevenly filled, or not to be told.
//
// Diagnose is a function from a measure.Document (facts, and measurements as
// far as there are any) to a measure.Diagnosis: a set of verdicts, each with
// its evidence, its confidence, what to do, and what would change our mind.
// Gather reads the facts from a handed-in root.
//
// Evidence: E1 kernel command line, packages and nodes; E2 firmware tables;
// E3 latency node to node; E4 latency of one buffer from the CPUs of different
// packages; E5 latency of single 2 MiB pages from each package; E6 bandwidth;
// E7 sizes and channels; E8 is the SLIT valid; E9 core to core. E1, E2, E7 and
// E8 need no measurement.
//
// Rules: when in doubt it is undecided, and says so. What firmware and kernel
// tell is believed even when the measurement is too noisy to use. A guest
// cannot see its host's firmware, so it never gets advice about a BIOS. An
// asymmetric SLIT alone is no error (some machines are built so).
//
// Not in here: measuring, reading of anything but the handed-in fs.FS, words
// laid out for a terminal.
package doctor
