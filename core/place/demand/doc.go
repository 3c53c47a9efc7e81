// Package demand finds how much work wants from what was seen of it.
//
// SpecFrom derives the size of running work (spec.go), Entitled the CPUs that it would use on nodes with room
// (entitled.go). Load is the wish of shared work for some CPUs, moment by moment (load.go), and ChooseCaches finds the
// last-level caches with room for it (caches.go).
//
// Not in here: what is booked, and where there is room for it (core/place).
package demand
