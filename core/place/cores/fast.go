package cores

import (
	"math/bits"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// slowShare is the part of the fastest core's speed below which a core is slow. Cores of one kind
// differ by up to a tenth (ACPI CPPC ranks them); efficient ones have about half to two thirds.
const slowShare = 0.8

// slowBelow returns the capacity below which a core of the host is slow, and notes whether it has such
// cores; 0 where all are alike or capacities are unknown.
func (b *Books) slowBelow(cores []topology.Core) int {
	least, most := 0, 0
	for i := range cores {
		c := cores[i].Capacity
		if c <= 0 {
			continue
		}
		most = max(most, c)
		if least == 0 || c < least {
			least = c
		}
	}
	below := int(slowShare * float64(most))
	b.hybrid = least > 0 && least < below
	if !b.hybrid {
		return 0
	}
	return below
}

// kind is which cores a picker may take from.
type kind uint8

const (
	anyCore kind = iota
	fastOnly
	slowOnly
)

// kinds returns the cores that dedicated work takes from on a node, one kind after the other: fast ones before
// slow ones, for work below the default importance the other way round, and both only where neither
// alone holds it.
func (b *Books) kinds(n *Node, w *Wish, vcpus int) []kind {
	if !b.hybrid {
		return []kind{anyCore}
	}
	first, second := fastOnly, slowOnly
	if w.Importance < workload.DefaultImportance {
		first, second = slowOnly, fastOnly
	}
	if b.holdsOf(n, first, w.SMT) < vcpus && b.holdsOf(n, second, w.SMT) >= vcpus {
		first = second
	}
	return []kind{first, anyCore}
}

// holdsOf returns the vCPUs that free cores of a kind can take.
func (b *Books) holdsOf(n *Node, of kind, smt workload.SMTPolicy) (vcpus int) {
	for i := n.cores.lo; i < n.cores.hi; i++ {
		c := &b.cores[i]
		if c.slow != (of == slowOnly) {
			continue
		}
		switch {
		case smt == workload.SMTPrefer:
			vcpus += bits.OnesCount64(c.free)
		case !c.whole():
		case smt == workload.SMTIsolate:
			vcpus++
		default:
			vcpus += len(c.cpus)
		}
	}
	return vcpus
}
