// Package wordstest compares reasons in tests by code and values, never by sentence.
package wordstest
