// Package peers finds who is responsible for the other end of a connection to this machine
// (workload.Owner), so that the API's bounds count by party.
//
// A peer of a unix socket is a process, by SO_PEERCRED (unix(7)): its cgroup and user namespace say
// more than its UID. A peer over TCP that is on this machine has a socket here with the same
// addresses the other way round, of which the kernel tells the UID (sock_diag(7)). Which process
// has it would take a walk through the descriptors of all processes, so there the UID has to do,
// with subuid(5).
//
// An answer is needed before a connection is accepted. None of these calls waits for the peer, but
// /proc/PID/cgroup waits for a lock that another program may hold for long: such a call is left
// behind, and the UID has to do.
//
// Not in here: how much a party may have (api).
package peers
