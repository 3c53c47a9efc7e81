// Package scope puts this process into a scope of systemd, a cgroup of its own that systemd
// takes away when its last process has ended (systemd.scope(5)).
//
// Not in here: which CPUs and nodes it gets, and scopes that are there already.
package scope
