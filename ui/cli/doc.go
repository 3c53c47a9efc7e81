// Package cli is the command line: it parses flags, asks the daemon (or scans the host
// itself when none runs) and prints for people or, with --json, for programs.
//
// Exit status: 0 done, 1 the answer is "no" or a warning, 2 bad usage or bad
// input, 3 not permitted or not possible here.
//
// Not in here: decisions, and anything that touches the host; the functions
// that do are handed in by cmd/homenode through Env.
package cli
