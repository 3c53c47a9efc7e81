// Package topology describes one machine: NUMA nodes, packages, cores, CPUs,
// last-level caches, distances, huge pages and devices.
//
// A Host comes from a live or captured tree of /sys and /proc (FromSysfs), from
// the XML that `lstopo --of xml` writes (FromHwlocXML), from a synthetic string
// (FromSynthetic) or from this project's JSON (FromJSON). All four give the same
// kind of value, so nothing downstream knows where it came from.
//
// What reading needs of a live machine can be captured (Capture) and opened
// elsewhere (OpenCapture). ReadFree refreshes what changes from second to second.
// docs/design/topology.md lists the files read, and where hwloc sees a machine otherwise.
//
// Errors say that a host cannot be told from the source; what is merely odd or
// missing becomes a Note, and the fact None. Sizes are KiB.
//
// Words: a node is a NUMA node, a package a socket, a core a physical core, a
// CPU a logical CPU (what hwloc calls PU). SLIT distance is the firmware's
// relative number, local = 10; it is not a latency.
//
// Not in here: decisions, load, and reading of anything but the handed-in
// fs.FS or io.Reader.
//
// Invariant: Core has no clock, I/O, goroutine, randomness or map order: same input, same plan. This holds for all of
// core (TestImportsGoOneWay).
package topology
