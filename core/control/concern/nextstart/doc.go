// Package nextstart is the concern for where workloads will be when they are started next, so that
// their first page falls there. Definitions keep its values until undo.
package nextstart
