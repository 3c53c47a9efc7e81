// Package words makes the sentences that people read out of codes and values, and is
// the one place where they are worded. Nothing else may test a sentence: programs
// compare codes.
//
// A file has the sentences of one theme, each next to its code. A sentence is made only
// when it is shown: deciders pass values.
//
// Not in here: decisions. It imports no other package of homenode.
//
// Invariant: Programs and tests compare codes; sentences are compared in one place (TestSentences).
package words
