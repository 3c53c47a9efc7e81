// Package measure is what a measurement of a machine is: the document that
// `homenode probe` writes, the statistics behind its numbers, and the order in
// which cells are visited. The same document is what doctor judges, what
// `--replay` reads back, what `probe diff` compares and what placement takes
// its distances from.
//
// Words: a cell is one pair (reader, memory); a sample is one short run of a
// kernel on a cell; a round visits all cells once, in random order; the
// interval of a cell is a 95 % bootstrap interval of its median.
//
// Algorithm of Collect: samples are short (2 to 3 ms) and cells are visited in
// random interleaved order, so that drift of the machine hits all cells alike
// and ratios can be taken pairwise within a round. A sample during which the
// kernel took the CPU away is thrown out. A cell is done when it has at least
// MinAccepted samples and its interval is narrow enough, or when it has used
// four times the tries.
//
// Not in here: loads, stores and system calls (host/probe), verdicts
// (core/doctor), pictures (ui/heat).
package measure
