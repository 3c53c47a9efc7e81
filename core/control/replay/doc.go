// Package replay compares two outputs of one input: the recorded one and the one that this version decides.
//
// They are the same if they are the same JSON, but for two differences. The lines of history may have the wording of
// another version. Values and reasons may have the names of before version 0.2 (Rename, for results of effects).
//
// It decides nothing and knows no State: control reads the log, decides each input again and asks here.
//
// Invariant: A log of version 0.1 is decided again without a difference, and another decision in it is found
// (TestReplayOfBefore in control, TestSame).
package replay
