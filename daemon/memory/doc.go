// Package memory is a daemon's store that forgets: for one look without a daemon, for
// the simulator, and for tests.
package memory
