// Package api is what programs and the command line say to the daemon: HTTP with
// JSON on a unix socket. It holds the wire types, the server (who may do what, by
// peer credentials) and the client.
//
// The JSON is a contract: fields are added, never renamed or removed, within one
// schema number.
//
// Not in here: state. The server asks a Backend.
package api
