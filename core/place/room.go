package place

import (
	"github.com/homenode/homenode/core/plan"
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
		rooms[i] = Room{Node: n.id, CPUs: n.Open(), Cores: n.CoresIn(float64(n.Open())), Free: n.memoryFree,
			Bandwidth: n.bandwidthCap}
	}
	return rooms
}

// Left is what one node still has for dedicated work.
type Left struct {
	Node      topology.NodeID
	CPUs      int          // that such work may be given, beside those that other work needs
	Shared    float64      // vCPUs that shared work may be given, by the policy's overcommit
	Memory    topology.KiB // in ordinary pages, that no placement books; None when the node's memory is unknown
	HugePages []HugeLeft   // by rising size
}

// HugeLeft is memory in pages of one size that no placement books.
type HugeLeft struct{ Size, Free topology.KiB }

// Left is what every node still has, in the order of the host's nodes: for dedicated work,
// or of its CPUs for shared work.
// Dedicated requests that each want one node, and together no more than this of it, all find a home
// there, unless they ask for whole cores.
func (l *Ledger) Left() []Left {
	l.guardBatch()
	all := make([]Left, len(l.nodes))
	for i := range l.nodes {
		n := &l.nodes[i]
		all[i] = Left{Node: n.id, CPUs: max(0, n.Free-l.keep(n)), Shared: l.sharedRoom(n), Memory: max(0, n.memoryFree)}
		if l.host.Nodes[i].OfGPU() { // only for work that names the node
			all[i].Memory = 0
			continue
		}
		if n.memory >= unlimited {
			all[i].Memory = topology.None
		}
		for _, p := range n.pages {
			all[i].HugePages = append(all[i].HugePages, HugeLeft{p.size, max(0, p.free)})
		}
	}
	for _, h := range l.held {
		if h.Class == workload.Batch {
			l.leaveOne(h, all)
		}
	}
	return all
}

// leaveOne leaves batch work a CPU on one of its nodes, when nothing else does.
func (l *Ledger) leaveOne(h *holding, all []Left) {
	most := -1
	for i := range l.nodes {
		n := &l.nodes[i]
		switch {
		case !h.Within.Empty() && !h.Within.Has(n.id):
		case n.Idle() > all[i].CPUs:
			return
		case all[i].CPUs > 0 && (most < 0 || all[i].CPUs > all[most].CPUs):
			most = i
		}
	}
	if most >= 0 {
		all[most].CPUs--
	}
}

// PlaceMemory is the placement of memory without CPUs on the one node that the spec names,
// and what is free there in pages of its size: nothing is placed when that is not enough.
func (l *Ledger) PlaceMemory(s workload.Spec) (p plan.Placement, free topology.KiB, ok bool) {
	w := l.wantOf(&Request{Spec: s})
	i := l.index(s.Nodes.Min())
	if i < 0 || s.Nodes.Len() != 1 {
		return p, 0, false
	}
	if here, held := l.find(s.ID); held { // that is its own
		h := l.held[here]
		l.Remove(s.ID)
		defer l.putBack(h)
	}
	if free = w.memoryRoom(l, i); w.memory > free {
		return p, free, false
	}
	return plan.Placement{Workload: s.ID, Class: workload.Shared, Importance: s.Importance, Home: s.Nodes,
			Memory: []workload.NodeMemory{{Node: s.Nodes.Min(), KiB: w.memory}}, Asked: s.Memory, HugePage: w.HugePage},
		free, true
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
// local access more. nil when there is nothing to be near to. waits is the CPUs that wait for
// its memory while all of that is local: what was learned costs a tenth of them, or
// learnedMost CPUs, at most.
func (l *Ledger) Pull(near []workload.Near, waits float64) []float64 {
	ceiling := learnedCeiling
	if waits > 0 {
		ceiling = max(ceiling, learnedMost/waits)
	}
	pull, _ := l.pull(near, ceiling)
	return pull
}
