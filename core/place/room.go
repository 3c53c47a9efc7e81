package place

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Room is what one node has for shared work, beside what is booked.
type Room struct {
	Node      topology.NodeID
	CPUs      int          // that shared work may use and no dedicated work holds
	Cores     float64      // those CPUs are, also in parts
	Free      topology.KiB // memory that no placement books; very large when the node's memory is unknown
	Bandwidth int64        // of its memory, MiB/s: measured, or about what a node of today has
}

// Rooms is the room of every node, in the order of the host's nodes.
func (l *Ledger) Rooms() []Room {
	rooms := make([]Room, len(l.nodes))
	for i := range l.nodes {
		n := &l.nodes[i]
		rooms[i] = Room{Node: n.id, CPUs: n.open(), Cores: n.coresIn(float64(n.open())), Free: n.memoryFree, Bandwidth: n.bandwidthCap}
	}
	return rooms
}

// Crowding is what shared work that wants to keep vcpus CPUs busy loses where it
// has so many CPUs on so many cores, in CPUs: what is beyond the cores doubles up
// on SMT siblings, what is beyond the CPUs waits.
func Crowding(cpus, cores, vcpus float64) float64 {
	if vcpus <= 0 {
		return 0
	}
	return overCPU*max(0, vcpus-cpus) + overCore*max(0, min(vcpus, cpus)-cores)
}

// Reserve is the idle CPU that work of an importance (0 to 100) keeps beside it, in
// per cent of its vCPUs: nothing up to the default, half of them at most. It is no
// limit, but counts as load when others choose.
func Reserve(importance int) int { return max(0, min(importance, 100)-workload.DefaultImportance) }

// Pull is what it costs a vCPU to be on each node, in the order of the host's, for
// being far from what a workload is near to; the unit is an access that costs one
// local access more. nil when there is nothing to be near to.
func (l *Ledger) Pull(near []workload.Near) []float64 {
	pull, _ := l.pull(near, 1)
	return pull
}
