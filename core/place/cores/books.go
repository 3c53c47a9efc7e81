package cores

import (
	"math/bits"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Books keeps which CPUs of a host dedicated work holds.
type Books struct {
	Nodes   []Node // in the order of the host's nodes
	Divided bool   // some node has several last-level caches
	split   bool   // there is a partition: shared work only has the CPUs beyond it
	hybrid  bool   // the host has fast and slow cores
	caches  []cache
	cores   []core   // by node, then cache, then lowest CPU
	coreAt  []int32  // index into cores by CPU ID; -1 for a CPU that no work may be given
	owners  []uint16 // dedicated placements that hold a CPU, by CPU ID
	batch   floats   // newest answer of ForBatch; its set is empty when a CPU was held or released since
	pieces  []piece  // memory that one choice after the other uses
}

// Node is the CPUs of one NUMA node. Only the methods of Books change it.
type Node struct {
	Usable    int  // CPUs that dedicated work may be given: online, allowed, not reserved, not beyond the partition
	Free      int  // usable CPUs that no dedicated work holds, 0 to Usable
	Whole     int  // physical cores all of whose CPUs are usable and free
	WholeCPUs int  // CPUs of the whole cores, 0 to Free
	Beyond    int  // CPUs beyond the partition that no dedicated work holds; 0 without a partition
	Divided   bool // several last-level caches divide it (topology.CachesOn)

	split       bool
	sharedOnly  int // CPUs that only shared and batch work may be given
	threads     int // CPUs of the largest core; 1 without any
	wholeUsable int // cores all of whose CPUs are usable
	llcs        topology.CacheSet
	cores       span // of Books.cores
	caches      span // of Books.caches
}

// Given returns the CPUs of the node that work of a class may be given, held or not.
func (n *Node) Given(class workload.Class) int {
	if n.split && class != workload.Dedicated {
		return n.sharedOnly
	}
	return n.Usable
}

// Open returns the number of CPUs that shared work may float over now.
func (n *Node) Open() int {
	if n.split {
		return n.Beyond
	}
	return n.Free
}

// Idle returns the number of CPUs that batch work may use now.
func (n *Node) Idle() int { return n.Free + n.Beyond }

// CoresIn returns how many physical cores the given number of CPUs are, in parts too, by the mean of the node.
func (n *Node) CoresIn(cpus float64) float64 {
	if n.Usable+n.sharedOnly == 0 {
		return 0
	}
	return cpus * float64(n.cores.len()) / float64(n.Usable+n.sharedOnly)
}

// PerCore returns the mean number of CPUs of a core; 1 without cores.
func (n *Node) PerCore() float64 {
	if n.cores.len() == 0 {
		return 1
	}
	return float64(n.Usable+n.sharedOnly) / float64(n.cores.len())
}

type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// core is a physical core. Bit k of a mask is the k-th of its usable CPUs.
type core struct {
	node, cache    int32
	threads        int  // online CPUs, also those that no work may be given
	slow           bool // see slowBelow
	cpus           []topology.CPUID
	free           uint64 // without those of sharedOnly
	sharedOnly     uint64 // beyond the partition: not for dedicated work
	sharedOnlyFree uint64
}

func (c *core) all() uint64 { return 1<<len(c.cpus) - 1 }

// mayBeWhole reports whether one tenant may be given all of the core.
func (c *core) mayBeWhole() bool { return c.threads == len(c.cpus) && c.sharedOnly == 0 }

// whole reports whether no other work has or may have any CPU of the core: a tenant
// that takes it all shares it with no one, not even the host.
func (c *core) whole() bool { return c.threads == len(c.cpus) && c.free == c.all() }

// floats is the CPUs that work may float over on some nodes.
type floats struct {
	nodes []int
	cpus  topology.CPUSet
}

// Clone returns books that can be changed without changing these.
func (b *Books) Clone() Books {
	c := *b
	c.Nodes = slices.Clone(b.Nodes)
	c.caches = slices.Clone(b.caches)
	c.cores = slices.Clone(b.cores)
	c.owners = slices.Clone(b.owners)
	c.pieces = nil
	return c
}

// NodeOf returns the index of a CPU's node, or -1 for a CPU that no work may be given.
func (b *Books) NodeOf(cpu topology.CPUID) int {
	if cpu < 0 || int(cpu) >= len(b.coreAt) || b.coreAt[cpu] < 0 {
		return -1
	}
	return int(b.cores[b.coreAt[cpu]].node)
}

// Taken reports whether dedicated work holds a CPU, or no work may be given it.
func (b *Books) Taken(cpu topology.CPUID) bool { return b.NodeOf(cpu) < 0 || b.owners[cpu] > 0 }

// Hold counts the CPUs of dedicated work, those held idle among them, as held once more (sign 1) or once less
// (sign -1).
func (b *Books) Hold(p *plan.Placement, sign int) {
	for cpu := range p.CPUs.All() {
		b.hold(cpu, sign)
	}
	for cpu := range p.Idle.All() {
		b.hold(cpu, sign)
	}
}

// hold counts one more or one less dedicated placement on a CPU.
func (b *Books) hold(cpu topology.CPUID, sign int) {
	if int(cpu) >= len(b.coreAt) || b.coreAt[cpu] < 0 {
		return
	}
	before := b.owners[cpu] > 0
	b.owners[cpu] += uint16(sign)
	after := b.owners[cpu] > 0
	if after == before {
		return
	}
	b.batch = floats{}
	c := &b.cores[b.coreAt[cpu]]
	bit := uint64(1) << slices.Index(c.cpus, cpu)
	if c.sharedOnly&bit != 0 { // held from before the partition came there
		c.sharedOnlyFree ^= bit
		if after {
			b.Nodes[c.node].Beyond--
		} else {
			b.Nodes[c.node].Beyond++
		}
		return
	}
	b.count(c, -1)
	c.free ^= bit
	b.count(c, 1)
}

// count adds (sign 1) or takes away (sign -1) a core's free CPUs in the sums.
func (b *Books) count(c *core, sign int) {
	n, k := &b.Nodes[c.node], &b.caches[c.cache]
	free := sign * bits.OnesCount64(c.free)
	n.Free += free
	k.free += free
	if c.whole() {
		n.Whole += sign
		n.WholeCPUs += sign * len(c.cpus)
		k.whole += sign
		k.wholeCPUs += sign * len(c.cpus)
	}
}

// Doubled returns the number of vCPUs of a placement on cores that other dedicated work uses as well.
func (b *Books) Doubled(p *plan.Placement) int {
	all := 0
	for _, cpu := range p.Pins {
		if b.NodeOf(cpu) < 0 {
			continue
		}
		c := &b.cores[b.coreAt[cpu]]
		own := uint64(0)
		for k, x := range c.cpus {
			if p.CPUs.Has(x) || p.Idle.Has(x) {
				own |= 1 << k
			}
		}
		if bits.OnesCount64(c.all()&^c.sharedOnly&^c.free&^own) > 0 {
			all++
		}
	}
	return all
}

// Layout returns the number of cores that a placement fills with its CPUs, of cores that it has a part of, and of its
// last-level caches.
func (b *Books) Layout(p *plan.Placement) (full, parts, caches int) {
	mine := p.CPUs.Union(p.Idle)
	last := -1
	in := map[int32]bool{}
	for _, cpu := range p.Pins {
		i := int(b.coreAt[cpu])
		in[b.cores[i].cache] = true
		if i == last {
			continue
		}
		last = i
		c := &b.cores[i]
		fills := c.threads == len(c.cpus)
		for _, sibling := range c.cpus {
			fills = fills && mine.Has(sibling)
		}
		if fills {
			full++
		} else {
			parts++
		}
	}
	return full, parts, len(in)
}

// ForBatch returns the CPUs of some nodes, by index and rising, that batch work may use now.
func (b *Books) ForBatch(nodes []int) topology.CPUSet {
	if b.batch.cpus.Empty() || !slices.Equal(b.batch.nodes, nodes) { // hundreds of workloads have the same
		b.batch = floats{nodes, b.floating(nodes, true)}
	}
	return b.batch.cpus
}

// ForShared returns the CPUs of some nodes, by index and rising, that shared work may float over now: the CPUs in some
// caches, and in all caches where none are named or the named ones have no CPU left.
func (b *Books) ForShared(nodes []int, in topology.CacheSet) topology.CPUSet {
	set := b.floating(nodes, false)
	if !b.Divided || in.Empty() {
		return set
	}
	var kept topology.CPUSet
	for cpu := range set.All() {
		if id := b.cacheOf(cpu); id != topology.None && in.Has(id) {
			kept.Add(cpu)
		}
	}
	if kept.Empty() {
		return set
	}
	return kept
}

// floating returns the CPUs of some nodes that work without CPUs of its own may use; the highest goes in first, so
// that the set is sized once.
func (b *Books) floating(nodes []int, batch bool) topology.CPUSet {
	var set topology.CPUSet
	for _, i := range slices.Backward(nodes) {
		s := b.Nodes[i].cores
		for k := s.hi - 1; k >= s.lo; k-- {
			c := &b.cores[k]
			m := c.sharedOnlyFree
			if !b.split || batch {
				m |= c.free
			}
			for ; m != 0; m &= m - 1 {
				set.Add(c.cpus[bits.TrailingZeros64(m)])
			}
		}
	}
	return set
}
