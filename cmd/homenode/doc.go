// Command homenode is the daemon and its command line in one binary.
//
// It wires the other packages together: it opens files and sockets, creates observers, sources, drivers and the store,
// and hands them to daemon and ui/cli.
//
// Not in here: decisions. A rule that needs an if belongs in core.
package main
