// Package ordertest has a test for packages whose files have an order: a file uses what files below it
// declare, and nothing of those above it.
package ordertest
