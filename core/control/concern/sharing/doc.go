// Package sharing is the concern for batch work: its CPUs, its memory, its share of block devices and
// its freezing; and for the protection of important work that runs next to it. core/share has the
// arithmetic; this package finds its inputs in the scene and returns desires.
package sharing
