// Package guest places virtual machines by flavor: the catalogue of sizes, the
// order for one guest, and the home that a host has for it.
//
// Words: a flavor is a size with all that belongs to it (class, vCPUs, memory,
// emulator policy, limits); an order is a flavor with a name, disks and NICs; a
// home is the placement of the guest together with the CPUs of its emulator and
// IOThreads and the NVMe drives it gets; a Guest is one that exists, Observed one
// that the daemon watches; a room is a host with all the guests on it.
//
// One order: the vCPUs and the memory are placed by package place. Under the
// emulator policy `isolate` the emulator is a dedicated workload of one CPU on
// the home of its guest; where no CPU is left for it, the next home is tried. A
// guest that gets NVMe drives is placed on the nodes that have enough of them.
//
// Counting asks for guests of one flavor until one is refused, and then, if it
// may, for the fewest moves (place.Repack) that make room for one more.
//
// Not in here: domain XML and libvirt (host/libvirt), and how a placement is
// found (package place).
package guest
