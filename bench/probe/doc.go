// Probe's benchmark: the project's kernels against the same written in C,
// compiled by gcc -O3 and called through cgo, on the same memory, in one
// process, sample by sample in random order. It is a module of its own because
// the product has no cgo.
//
// Run it by `make bench-probe`. The table is for docs/design/performance.md.
package main
