package workload

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// Part is what of another claimed workload a claim is about. What was seen of a part is taken
// out of what was seen of the whole, so that nothing counts twice.
type Part struct {
	Of    ID                // the whole
	VCPUs topology.Set[int] // the threads that run these vCPUs
	// Memory is the node that the hypervisor asked for when it took the part's memory: the
	// policy of its mappings names it, wherever the pages have gone since.
	Memory topology.NodeID
}

// partWord stands between the ID of a whole and the number of a part.
const partWord = "/cell"

// PartID names a part of a workload, counted from 0.
func PartID(whole ID, n int) ID { return ID(fmt.Sprintf("%s%s%d", whole, partWord, n)) }

// PartOf is the workload that an ID names a part of, and which; the ID itself and -1 for what
// is no part. Cgroups, whose IDs are paths, have none.
func PartOf(id ID) (whole ID, n int) {
	i := strings.LastIndex(string(id), partWord)
	if i <= 0 || strings.HasPrefix(string(id), "/") {
		return id, -1
	}
	digits := string(id[i+len(partWord):])
	n, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(n) != digits || n < 0 {
		return id, -1
	}
	return id[:i], n
}

// Is reports whether a workload is the named one or a part of it.
func (id ID) Is(named ID) bool {
	if id == named {
		return true
	}
	whole, n := PartOf(id)
	return n >= 0 && whole == named
}

// ThreadTime is a part of the CPU time that a workload used over the window: that of the
// thread of one vCPU, on one node.
type ThreadTime struct {
	VCPU  int
	Node  topology.NodeID
	Share float64 // 0 to 1
}

// AskedMemory is memory of a process in mappings for which it asked for one node.
type AskedMemory struct {
	Node   topology.NodeID // asked for
	Huge   bool            `json:",omitzero"` // pages of hugetlbfs are among it
	Memory []NodeMemory    // where it lies, rising by node
}
