// Package words makes the sentences that people read out of codes and values, and is
// the one place where they are worded. Nothing else may test a sentence: programs
// compare codes.
//
// A file has the sentences of one theme, each beside its code. A sentence is only made
// when it is shown: what decides hands over values.
//
// It must not hold decisions, and it imports no other package of homenode.
//
// Invariant: Programs and tests compare codes; sentences are compared in one place (TestSentences).
package words
