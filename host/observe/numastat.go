package observe

import (
	"bytes"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// numaStat is the part of a cgroup's memory.numa_stat that is used here, in KiB by
// node, of the cgroup and all below it. It tells what was charged to the cgroup: a
// process brings none of its earlier memory along when it is moved in, and hugetlbfs
// pages are not in it.
type numaStat struct {
	anon   byNode // anonymous, swap cache too
	mapped byNode // page cache that some process has mapped, shmem too
	shmem  byNode // tmpfs, memfd, System V

	tables byNode // page tables
	nested byNode // second-level page tables, of guests
	stacks byNode // kernel stacks of threads
}

// kernel is the memory that the kernel has for the workload, and that no page move takes along.
func (s *numaStat) kernel() workload.Kernel {
	return workload.Kernel{PageTables: s.tables.list(), NestedTables: s.nested.list(), Stacks: s.stacks.list()}
}

// resident is the memory on each node that belongs to the workload: page cache
// that nobody has mapped is not in it. Shared memory is in mapped as far as it is
// mapped, so the larger of the two is the best that can be said without counting
// anything twice.
func (s numaStat) resident() byNode {
	out := append(byNode(nil), s.anon...)
	for n := range max(len(s.mapped), len(s.shmem)) {
		out.add(n, max(s.mapped.at(n), s.shmem.at(n)))
	}
	return out
}

// parseNUMAStat reads memory.numa_stat: lines "anon N0=4096 N1=0", in bytes.
// It reuses the slices of into. It is false when there is no line "anon".
func parseNUMAStat(b []byte, into *numaStat) bool {
	into.anon = into.anon[:0]
	into.mapped = into.mapped[:0]
	into.shmem = into.shmem[:0]
	into.tables = into.tables[:0]
	into.nested = into.nested[:0]
	into.stacks = into.stacks[:0]
	found := false
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		i := bytes.IndexByte(line, ' ')
		if i < 0 {
			continue
		}
		var to *byNode
		switch string(line[:i]) {
		case "anon":
			to, found = &into.anon, true
		case "file_mapped":
			to = &into.mapped
		case "shmem":
			to = &into.shmem
		case "pagetables":
			to = &into.tables
		case "sec_pagetables":
			to = &into.nested
		case "kernel_stack":
			to = &into.stacks
		default:
			continue
		}
		for rest := line[i+1:]; len(rest) > 0; {
			word := rest
			if i := bytes.IndexByte(rest, ' '); i >= 0 {
				word, rest = rest[:i], rest[i+1:]
			} else {
				rest = nil
			}
			if node, n, ok := proc.NodeAmount(word); ok && n < proc.MaxKiB {
				to.add(node, topology.KiB(n/1024))
			}
		}
	}
	return found
}
