package cores

import "github.com/homenode/homenode/core/workload"

// Holds returns how many vCPUs of dedicated work the free CPUs of a node hold, when at most spare of them may be taken.
func (b *Books) Holds(node, spare int, smt workload.SMTPolicy) int {
	if spare <= 0 || smt == workload.SMTPrefer {
		return max(0, spare)
	}
	return b.wholeRoom(node, spare, smt == workload.SMTIsolate)
}

// EverHolds returns how many vCPUs of dedicated work a node holds when no CPU is held there.
func (b *Books) EverHolds(node int, smt workload.SMTPolicy) int {
	n := &b.Nodes[node]
	switch smt {
	case workload.SMTIsolate:
		return n.wholeUsable
	case workload.SMTRequire:
		vcpus := 0
		for k := n.cores.lo; k < n.cores.hi; k++ {
			if c := &b.cores[k]; c.mayBeWhole() {
				vcpus += len(c.cpus)
			}
		}
		return vcpus
	}
	return n.Usable
}

// wholeRoom returns how many vCPUs fit on free whole cores, one a core or one a CPU,
// when at most spare CPUs may be taken.
func (b *Books) wholeRoom(node, spare int, onePerCore bool) int {
	n := &b.Nodes[node]
	switch {
	case n.WholeCPUs > spare:
		return max(b.wholeBySize(n, spare, onePerCore, false), b.wholeBySize(n, spare, onePerCore, true))
	case onePerCore:
		return n.Whole
	}
	return n.WholeCPUs
}

// wholeBySize adds up free whole cores in order of size, as long as they fit
// into spare CPUs. The order matters where cores differ in size.
func (b *Books) wholeBySize(n *Node, spare int, onePerCore, largestFirst bool) int {
	room := 0
	for k := 1; k <= n.threads && spare > 0; k++ {
		threads := k
		if largestFirst {
			threads = n.threads + 1 - k
		}
		for i := n.cores.lo; i < n.cores.hi && threads <= spare; i++ {
			if c := &b.cores[i]; c.whole() && len(c.cpus) == threads {
				spare -= threads
				if onePerCore {
					room++
				} else {
					room += threads
				}
			}
		}
	}
	return room
}
