// Package replay runs placement traces: arrivals and departures on a described
// host, decided one by one as they come. It is how the engine is measured
// against others (bench/placement, `homenode plan --case`).
//
// Not in here: the engine, and any clock: the caller hands one in.
package replay
