// Package sharing is the concern for batch work: the CPUs, the memory and the share of block devices
// that it may have, what is frozen, and what is set of important work beside it. core/share has the
// arithmetic; this package finds its inputs in the scene and returns desires.
package sharing
