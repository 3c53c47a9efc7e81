// Package home has the tests of homenode on a bare host: what it observes, places, moves and
// undoes (homenode.*), with last-level caches, GPUs and tiers of memory (tiers.*), and the
// test of a trial.
//
// It also has the processes that these tests start through command guest, such as one that
// holds a cpuset's lock (stuck.go) or memory that cannot move (immovable.go).
//
// Work that a container runtime, libvirt or systemd starts belongs to package runtimes, and
// batch work to package share. Only command guest imports this package.
package home
