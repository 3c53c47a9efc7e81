// Package store is the durable memory of the daemon: the journal of what was
// changed and how it was before, the homes, the page moves, the history.
//
// Everything lies in one bbolt file, homenode.db. A Commit is one bbolt transaction,
// so that after a crash the file holds the state before it or after it, nothing
// between. Values are JSON under a schema number: they can be read with bbolt's own
// tools when all else fails, and a newer file is refused instead of half understood.
//
// # When it is on disk
//
// A kill -9 loses nothing that was written. Syncing is for a power loss, and of all that
// the file holds only the definitions of guests and the homes outlive one: what else the
// journal could undo, the boot has undone. Still every Commit syncs, twice as bbolt does
// it, the pages and then the page that makes them count. Without that a power loss
// could leave the second and not the first, a damaged file, and the definitions would be
// lost with the rest; a file of their own, synced alone, would be a second format to keep.
// It costs little, for the daemon makes one Commit of all that follows from a look, and
// none where nothing does: some milliseconds in two seconds at most.
//
// # Damage
//
// Each value has a checksum (CRC-32C) over its bucket, key and text, and each bucket the
// count and sum of them. All of the file is read and checked before bbolt maps it; what
// is not as it was written is a CorruptError, never a crash and never another journal.
// See readPages.
//
// # Locks and links
//
// The lock of a state folder is a flock(2) on homenode.lock, which the kernel drops with
// the process however that ends. The file also names the holder, for people. LockHost is
// the lock of a host. The folder and its files must be the caller's own; links in it are
// not followed.
//
// An entry is live until it is Restored or Gone; only live entries are kept, for what is
// done stands in the history.
//
// # History
//
// The newest events are in one bucket; what was changed and what people ordered is in
// others as well, each with a bound of its own. A version that does not know those finds
// all it knows in the first, and what it adds there is taken over from it by the next that does.
//
// Not in here: what an entry means, when to undo, and any reading of the host
// but /proc/PID/stat of the lock's holder.
//
// Invariant: Stored data is checked before it is used. Every value has a checksum, every table the sum of them, and
// every page is followed before bbolt maps the file. Damage is an error that names the file: never a crash, never
// another journal (TestDamageIsNeverReplaced, TestDamagedBytes).
//
// Invariant: One daemon enforces on a host, whatever its state folder. Only root can open the lock file
// (TestOneDaemonPerHost, TestUserCannotTakeTheHost).
//
// Invariant: The history is an audit: changes and orders are kept for months, and no party can push out the entries
// of another (TestAuditIsKeptPerOwner).
package store
