// Package api is the interface of the daemon for programs and the command line: HTTP with
// JSON on a unix socket. It has the wire types, the server, which checks permissions by
// peer credentials, and the client.
//
// The JSON is a contract: fields are added, never renamed or removed, within one
// schema number.
//
// Not in here: state. The server asks a Backend.
//
// Invariant: Nothing can be changed over TCP, and a client there sees no more than an ordinary user on the socket
// (TestAttacksOverTCP, TestUsersOfThisMachineOverTCP).
//
// Invariant: No user keeps another user, or root, from an answer: connections, streams and requests are limited by
// party (workload.Owner), not by UID (TestManyConnectionsOfOneUser, TestPlacesAreShared, TestPlacesOverTCP).
package api
