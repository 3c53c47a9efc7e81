// Package store is the durable memory of the daemon: the journal of what was
// changed and how it was before, the homes, the page moves, the history.
//
// Everything lies in one bbolt file, homenode.db. Each write is one bbolt
// transaction, on disk (fsync) before the method returns, so that after a crash
// the file holds the state before a write or after it, nothing between. Values
// are JSON under a schema number: they can be read with bbolt's own tools when
// all else fails, and a newer file is refused instead of half understood.
//
// Words: an entry is live until it is Restored or Gone; only live entries are
// kept, for what is done is told by the history.
//
// The lock is a flock(2) on homenode.lock, which the kernel drops with the
// process however that ends. The file also names the holder, for people.
//
// Not in here: what an entry means, when to undo, and any reading of the host
// but /proc/PID/stat of the lock's holder.
package store
