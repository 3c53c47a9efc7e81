// Package marks speaks to the counting plugin (e2e/numacount) from inside a guest, by instructions that do
// nothing but for their number. Without the plugin they do nothing at all.
//
// What must not be in here: anything that is not a mark. The first process of e2e/same is made of this and of
// nothing else of the tree, so that its counts stay comparable for long.
package marks
