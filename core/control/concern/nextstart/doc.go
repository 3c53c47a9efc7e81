// Package nextstart is the concern for where workloads will be when they are started next, so that
// their first page falls there. What it writes into definitions stays until undo.
package nextstart
