// Package flight keeps what the daemon saw, was asked and decided: the flight recorder.
//
// A log is a folder of files, flight-N.jsonl.zst, oldest first by number. Each is
// one zstd stream of JSON lines, flushed after every line: what a killed daemon
// leaves is a file whose last line may be torn, and all before it is whole. A file
// begins with a checkpoint, all that the daemon remembered, so that each can be
// replayed by itself; a daemon that starts begins a new one. The oldest files go
// when all together are larger than allowed.
//
// A log may come from anybody: what it takes to read one is bounded.
//
// Nothing is fsynced: the journal is what undo stands on, this is for people.
//
// Not in here: what a checkpoint and a line mean.
package flight
