// Package kernel is the loads and stores by which memory is measured: a chain of
// dependent loads for latency, and streams for bandwidth.
//
// The chain is plain Go: the compiler makes one load instruction of each link
// (checked against C on the same memory by `make bench-probe`). Streams are
// assembly where the instruction matters: AVX2 and AVX-512 loads, ordinary and
// non-temporal stores on amd64, LDP, STP and STNP of 128-bit registers on arm64.
// Each has a portable form; reading one word of each line moves as many
// lines as reading all of them. Never the copy and clear builtins: for large
// sizes the runtime changes to non-temporal stores by itself, and with them the
// ratio of reads to writes.
//
// Words: a stream is a run of consecutive lines that a kernel reads or writes; a
// step is one portion of a kernel's work, short enough for the Go scheduler.
//
// Not in here: buffers, threads, clocks.
package kernel
