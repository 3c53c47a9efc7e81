package scx

import (
	"cmp"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// The types of bpf/share.h; TestTypes compares them with the object's.
const (
	maxCPUs     = 1024
	maxNodes    = 64
	maxLLCs     = 256
	maxSiblings = 7
	maxCgroups  = 16384
	buckets     = 32
)

type kernelSettings struct {
	Guard, Patience, Slice, Hold, Generation uint64
	NrCPUs, NrListed, NrLLCs, NrNodes        uint32
}

type kernelPlace struct {
	Known, Node, LLC, NrSiblings uint32
	Siblings                     [maxSiblings]uint32
	Order                        uint32
}

type kernelNode struct {
	First, Count, FirstLLC, NrLLCs uint32
	Budget, Buffer                 int64
}

type kernelLLC struct{ Node, First, Count, Reserved uint32 }

type kernelTier struct {
	Nodes          uint64
	Tier, Reserved uint32
}

type cpuNow struct {
	Word, StrictUntil, Since, OverlapSince, LastCgroup, LastGeneration uint64
	LastTier, Online, Guard, Overdue, Turn, Waiting, Roused, Reserved  uint32
}

type nodeNow struct {
	Idle, Batch int64
	Used        uint64
	Coming      uint64
}

type llcNow struct {
	GuardNext, Oldest uint64
	Overdue, Waiting  uint32
}

type kernelEnding struct {
	Code           int64
	Kind, Reserved uint32
	Reason         [64]byte
	Message        [192]byte
}

// count is the index of a counter.
type count int

const (
	refusedExpelled count = iota
	refusedBudget
	refusedBuffer
	refusedNodes
	refusedOnline
	guardSlices
	guardBeside
	strictStarts
	strictStops
	kickExpel
	kickLate
	kickIdle
	kickGuardEnd
	starts
	enqueued
	enqueuedOwn
	enqueuedFree
	stolenNode
	stolenRemote
	kept
	pulses
	kickHandOver // last: a scheduler from before it has none
	nrCounts
)

var tierNumber = map[workload.Tier]uint32{workload.OnlineStrict: 1, workload.Online: 2, workload.Normal: 3,
	workload.BatchTier: 4}

// tables is a Config as the kernel side has it.
type tables struct {
	settings kernelSettings
	places   []kernelPlace
	nodes    []kernelNode
	llcs     []kernelLLC
}

func (c Config) tables() tables {
	cpus := slices.Clone(c.CPUs)
	slices.SortFunc(cpus, func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.LLC, b.LLC), cmp.Compare(a.ID, b.ID))
	})
	t := tables{nodes: make([]kernelNode, maxNodes)}
	for i := range t.nodes {
		t.nodes[i].Budget = -1
	}
	highest := slices.MaxFunc(cpus, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) }).ID
	t.places = make([]kernelPlace, max(int(highest)+1, len(cpus)))
	for i, cpu := range cpus {
		node := &t.nodes[cpu.Node]
		if i == 0 || cpus[i-1].Node != cpu.Node {
			node.First, node.FirstLLC = uint32(i), uint32(len(t.llcs))
		}
		if i == 0 || cpus[i-1].Node != cpu.Node || cpus[i-1].LLC != cpu.LLC {
			t.llcs = append(t.llcs, kernelLLC{Node: uint32(cpu.Node), First: uint32(i)})
			node.NrLLCs++
		}
		node.Count++
		t.llcs[len(t.llcs)-1].Count++
		p := &t.places[cpu.ID]
		p.Known = 1
		p.Node = uint32(cpu.Node)
		p.LLC = uint32(len(t.llcs) - 1)
		for s := range cpu.Siblings.All() {
			p.Siblings[p.NrSiblings] = uint32(s)
			p.NrSiblings++
		}
		t.places[i].Order = uint32(cpu.ID)
	}
	for _, n := range c.Nodes {
		t.nodes[n.ID].Budget = -1
		if n.Budget >= 0 {
			t.nodes[n.ID].Budget = int64(n.Budget*1000 + 0.5)
		}
		t.nodes[n.ID].Buffer = int64(n.Idle)
	}
	t.settings = kernelSettings{
		Guard: nanoseconds(cmp.Or(c.Guard, time.Second)), Slice: nanoseconds(cmp.Or(c.Slice, 2*time.Millisecond)),
		Patience: nanoseconds(c.timeout() / 2), Hold: nanoseconds(cmp.Or(c.Hold, 200*time.Microsecond)),
		NrCPUs: uint32(highest) + 1, NrListed: uint32(len(cpus)), NrLLCs: uint32(len(t.llcs)),
		NrNodes: uint32(cpus[len(cpus)-1].Node) + 1,
	}
	if c.NoGuard {
		t.settings.Guard = 0
	}
	return t
}

func nanoseconds(d time.Duration) uint64 { return uint64(max(d, 0)) }

// nodeBits is a set of nodes as one word; 0 is all.
func nodeBits(s topology.NodeSet) uint64 {
	var w uint64
	for n := range s.All() {
		if n < maxNodes {
			w |= 1 << n
		}
	}
	return w
}
